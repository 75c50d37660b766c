// Pictures and text are looked at without saving them. What was verified is shown in a frame of its own, in which
// nothing runs.

import { busy, empty, h } from "./dom.js";
import { damage, stepIn } from "./download.js";
import { bytes, nameOf, price } from "./text.js";
import { isFree, verifiedBlob } from "./verify.js";

const mostBytes = 1 << 24;
const mostText = 500_000; // characters that are shown

const pictures = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", avif: "image/avif", svg: "image/svg+xml" };
const texts = /\.(txt|md|markdown|csv|tsv|log|json|jsonl|xml|ya?ml|toml|ini|conf|cfg|go|mod|sum|m?js|ts|py|rb|rs|c|h|cc|cpp|hpp|java|kt|sh|sql|html?|css|tex|bib|patch|diff|org|rst)$/i;

// previewSection offers to look at a version; false where there is nothing to see.
export function previewSection(g, session, f) {
	const kind = g.role && f ? kindOf(f) : undefined;
	if (!kind) return false;
	const slot = h("div", { class: "result", "aria-live": "polite" });
	const failed = h("div");
	const cost = isFree(f.ipfs_hash) ? "free" : price(session.fees.retrieve);
	const button = h("button", { type: "button" }, `Preview for ${cost}`);
	const isPaid = cost === "free";
	const section = h("section", { "aria-label": "Preview", class: isPaid && "preview-room" }, !isPaid && button, slot, failed); // so that nothing moves when it comes
	const look = (event) => busy(button, failed, async () => {
		try {
			const blob = await verifiedBlob(g.id, f, session.max_file_bytes, stepIn(slot));
			if (!blob) return;
			section.replaceChildren(await shown(kind, blob, nameOf(f)));
			if (event) section.querySelector("iframe")?.focus();
		} catch (error) {
			slot.replaceChildren();
			const why = damage(error);
			if (!why) throw error;
			slot.replaceChildren(...why);
		}
	});
	button.addEventListener("click", look);
	if (isPaid) requestAnimationFrame(() => look());
	return section;
}

// kindOf is the type of a picture or "text", as the name says; undefined for what is not shown.
function kindOf(f) {
	if ((f.original_size ?? 0) > mostBytes || f.content_type === "inode/symlink") return undefined;
	const name = nameOf(f);
	const [, ending = ""] = name.match(/\.(\w+)$/) ?? [];
	return pictures[ending.toLowerCase()] ?? (texts.test(name) || !name.includes(".") || f.content_type?.startsWith("text/") ? "text" : undefined);
}

async function shown(kind, blob, name) {
	if (kind !== "text") return frame(name, h("img", { src: await dataOf(blob.slice(0, blob.size, kind)), alt: name }));
	const raw = await blob.arrayBuffer();
	let text;
	try {
		text = new TextDecoder("utf-8", { fatal: true }).decode(raw);
	} catch {
		text = "\0";
	}
	if (text.includes("\0")) return empty("There is no preview", `It is called like a text, but holds other bytes: ${bytes(blob.size)}.`);
	const cut = text.length > mostText;
	return h("div", null, frame(name, h("pre", null, text.slice(0, mostText))), cut && h("p", { class: "hint" }, "This is its beginning. Download it to see the rest."));
}

// frame shows an element where no script runs, whatever it holds.
function frame(name, element) {
	const inside = h("iframe", { class: "preview", sandbox: "allow-same-origin", title: `Preview of ${name}` });
	inside.addEventListener("load", () => {
		const page = inside.contentDocument;
		page.documentElement.lang = "";
		page.title = name;
		page.head.append(h("link", { rel: "stylesheet", href: new URL("style.css", location.href).href }));
		page.body.className = "previewed";
		page.body.append(element);
	});
	return inside;
}

function dataOf(blob) {
	return new Promise((resolve, reject) => {
		const reader = new FileReader();
		reader.addEventListener("load", () => resolve(reader.result));
		reader.addEventListener("error", () => reject(reader.error));
		reader.readAsDataURL(blob);
	});
}
