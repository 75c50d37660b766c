// The address of what the page shows: "#/VIEW/GROUP/FOLDER/FILE", each part escaped.

// place is the address of a group, or of a recorded path in it.
export function place(view, group, path) {
	return `#/${view}/${[group, ...(path === undefined ? [] : path.split("/"))].map(encodeURIComponent).join("/")}`;
}

// placeOf reads such an address: group and path are undefined where it has none.
export function placeOf(address) {
	const [, view, rest] = address.match(/^#\/([a-z]+)(?:\/(.+))?$/) ?? [];
	const [group, ...path] = rest?.split("/").map(decodeURIComponent) ?? [];
	return { view, group, path: path.length > 0 ? path.join("/") : undefined };
}
