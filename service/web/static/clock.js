// The clock of the service, by which windows and invites end.

let ahead = 0; // ms that it is ahead of this machine's

export function setClock(ms) {
	ahead = ms - Date.now();
}

// now is what the service's clock says, in ms.
export function now() {
	return Date.now() + ahead;
}
