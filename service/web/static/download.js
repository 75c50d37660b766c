// Getting a file: it is verified before it is saved, and shown as it is.

import { badge, h, held, icon, notice } from "./dom.js";
import { bytes, nameOf, shellWord } from "./text.js";
import { canSave, fitsMemory, save, verifiedBlob } from "./verify.js";
import { Mismatch } from "./bytes.js";
import { ServiceError } from "./api.js";

// stepIn shows how far something is; it stops when the view is left.
export function stepIn(slot) {
	return (text) => {
		slot.replaceChildren(h("span", { class: "hint" }, text));
		return slot.isConnected;
	};
}

// damage tells that a file is not what its uploader saved; undefined for any other error.
export function damage(error) {
	if (!(error instanceof Mismatch) && !(error instanceof ServiceError && error.code === "BLOB_CORRUPT")) return undefined;
	return [badge("byte-mismatched", "bad"), h("p", { class: "hint" }, `${error.message} Nothing of it was saved here. Ask its uploader to save it again.`)];
}

// downloadButton is a button that saves a file on this machine, and where it tells how far it is.
export function downloadButton(g, session, f, name) {
	const slot = h("div", { class: "result", "aria-live": "polite" });
	const button = h("button", { type: "button", class: "small", "aria-label": `Download ${name}` }, icon("down"), h("span", null, "Download"));
	button.addEventListener("click", () => download(g, session, f, button, slot));
	return [button, slot];
}

// download saves a file, and tells how it went.
export function download(g, session, f, button, slot) {
	return held(button, async () => {
		try {
			slot.replaceChildren(...await saved(g, session, f, stepIn(slot)));
		} catch (error) {
			slot.replaceChildren(...damage(error) ?? [notice("bad", error.message)]);
		}
	});
}

async function saved(g, session, f, step) {
	if (f.content && !fitsMemory(f)) {
		if (!canSave()) throw new Error(`This browser cannot write ${bytes(f.original_size)} as they come; nothing was charged. Use: svcfs get ${shellWord(g.id)} ${shellWord(f.shown)}`);
		return await save(g.id, f, step) ? [h("span", { class: "hint" }, "Verified and saved")] : [];
	}
	const blob = await verifiedBlob(g.id, f, session.max_file_bytes, step);
	if (!blob) return [];
	const url = URL.createObjectURL(blob);
	h("a", { href: url, download: nameOf(f) }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
	return [h("span", { class: "hint" }, "Verified and saved")];
}
