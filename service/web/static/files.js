// What lies in a folder of a group: folders and files in one table, which can be sorted and filtered.

import { call, get } from "./api.js";
import { askForm, cell, empty, failure, field, h, icon } from "./dom.js";
import { downloadButton } from "./download.js";
import { move } from "./move.js";
import { place } from "./place.js";
import { attributes, bytes, changedAt, date, nameOf, person, plural, price, shellWord, shortDate, unfit, visible } from "./text.js";
import { selectionBar } from "./selection.js";
import { chooser } from "./uploads.js";

const mostRows = 5000; // that are sorted and filtered

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const columns = [["name", "Name"], ["size", "Size"], ["changed", "Changed"], ["by", "Saved by"]];

// What the user set stays where the view is drawn anew: the order everywhere, the filter in its folder.
let order = { by: "name", down: false };
let filtered = { address: "", text: "" };

// filesSection lists a folder from its first page on; again draws the view anew.
export function filesSection(g, session, folder, page, again) {
	const mayWrite = ["owner", "writer"].includes(g.role);
	const section = h("section", { "aria-label": "Files" });
	const tools = h("div", { class: "tools" }, mayWrite ? chooser(g, folder, section, h("button", { type: "button", onclick: () => makeFolder(g, folder, again) }, "New folder"))
		: h("p", { class: "hint" }, g.role ? "You read here. The owner can make you a writer: then you can upload files too." : "You see what is here. Who joins the group can read it."));
	section.append(tools);
	if (page.folders.length + page.files.length === 0) {
		section.append(empty(folder === "" ? "No files yet" : "Nothing is in this folder", "Members save files here from a mount, from this page, or with:", h("pre", null, `svcfs put ${shellWord(g.id)} FILE`)));
		return section;
	}
	const [filter, ...table] = new Table(g, session, folder, again).begin(page);
	tools.append(filter);
	section.append(...table);
	if (g.role) section.append(h("p", { class: "hint" }, `A file is decrypted here and compared with the ledger before it is saved. Reading one: ${price(session.fees.retrieve)}, once an hour.`));
	return section;
}

async function makeFolder(g, folder, again) {
	const name = await askForm({
		title: "New folder", yes: "Make folder",
		fields: [field("Name", "", h("input", { name: "folder", required: true, maxlength: 255, autocomplete: "off", autofocus: true }))],
		submit: async (data) => {
			const name = data.get("folder").trim();
			if (unfit(name)) throw new Error(`There is no such folder: ${unfit(name)}.`);
			await call("make_folder", { group_id: g.id, folder: folder + name });
			return name;
		},
	});
	if (name !== undefined) await again(`The folder ${visible(name)} is there`);
}

// Table holds the rows that have come.
class Table {
	#g; #session; #folder; #bar; #again;
	#rows = []; // {isFolder, name, size, changed, by, element, file or folder, check}
	#after = ""; // where the rows that have not come begin
	#loading = false;
	#body = h("tbody");
	#heads = new Map(); // by column
	#count = h("p", { class: "hint", role: "status" });
	#slot = h("div");
	#more = h("button", { type: "button" }, "Show more");
	#filter = h("input", { type: "search", id: "f-filter", placeholder: "Filter by name", "aria-label": "Filter by name", autocomplete: "off", spellcheck: "false" });

	#all = h("input", { type: "checkbox", "aria-label": "Select all shown" });

	constructor(g, session, folder, again) {
		this.#g = g;
		this.#session = session;
		this.#folder = folder;
		this.#again = again;
		this.#bar = selectionBar(g, session, folder, again, () => this.#select(false));
	}

	begin(page) {
		const form = h("form", { role: "search", class: "filter" }, this.#filter);
		if (filtered.address === location.hash) this.#filter.value = filtered.text;
		form.addEventListener("submit", (event) => event.preventDefault());
		this.#filter.addEventListener("input", () => {
			filtered = { address: location.hash, text: this.#filter.value };
			this.#draw();
			this.#rest();
		});
		this.#more.addEventListener("click", async () => {
			const first = this.#rows.length;
			if (await this.#next()) this.#rows[first]?.element.querySelector("a, button")?.focus();
		});
		this.#takeMoves();
		this.#all.addEventListener("change", () => this.#select(this.#all.checked));
		const head = h("tr", null, this.#g.role && h("td", { class: "pick" }, this.#all), columns.map(([by, text]) => this.#head(by, text)), this.#g.role && h("td", null));
		this.#add(page);
		this.#draw();
		this.#rest();
		return [form, this.#bar.element, h("table", { class: "files" }, h("thead", null, head), this.#body), this.#count, this.#slot, h("p", null, this.#more)];
	}

	#head(by, text) {
		const sort = () => {
			order = { by, down: order.by === by && !order.down };
			this.#draw();
			this.#rest();
		};
		const th = h("th", { scope: "col" }, h("button", { type: "button", class: "sort", onclick: sort }, text));
		this.#heads.set(by, th);
		return th;
	}

	#add(page) {
		for (const f of page.folders) this.#row({ isFolder: true, folder: f, name: f.shown, size: -1, changed: 0, by: "" });
		for (const f of page.files) this.#row({ isFolder: false, file: f, name: nameOf(f), size: f.original_size ?? -1, changed: changedAt(f), by: person(f.user_id, this.#session) });
		this.#after = page.after;
	}

	#row(row) {
		row.check = h("input", { type: "checkbox", "aria-label": `Select ${row.name}` });
		row.check.addEventListener("change", () => this.#selected());
		const pick = this.#g.role && h("td", { class: "pick" }, row.check);
		row.element = row.isFolder ? this.#folderRow(row, pick) : this.#fileRow(row, pick);
		row.element.draggable = ["owner", "writer"].includes(this.#g.role);
		this.#rows.push(row);
	}

	// takeMoves lets rows be dragged into a folder: those that are selected, or the one alone.
	#takeMoves() {
		if (!["owner", "writer"].includes(this.#g.role)) return;
		let dragged = [];
		const into = (event) => {
			const row = dragged.length > 0 && this.#rows.find((r) => r.isFolder && r.element.contains(event.target));
			return row && !dragged.includes(row) ? row : undefined;
		};
		const mark = (row) => this.#rows.forEach((r) => r.element.classList.toggle("drop", r === row));
		this.#body.addEventListener("dragstart", (event) => {
			const row = this.#rows.find((r) => r.element.contains(event.target));
			dragged = row.check.checked ? this.#rows.filter((r) => r.check.checked) : [row];
			event.dataTransfer.setData("text/plain", dragged.map((r) => r.name).join("\n"));
			event.dataTransfer.effectAllowed = "move";
		});
		this.#body.addEventListener("dragover", (event) => {
			const row = into(event);
			if (row) event.preventDefault();
			if (dragged.length > 0) mark(row);
		});
		this.#body.addEventListener("drop", async (event) => {
			const row = into(event), rows = dragged;
			dragged = [];
			if (!row) return;
			event.preventDefault();
			mark();
			try {
				await this.#again(await move(this.#g, rows, row.folder.folder));
			} catch (error) {
				this.#slot.replaceChildren(failure(error));
			}
		});
		this.#body.addEventListener("dragend", () => {
			dragged = [];
			mark();
		});
	}

	// select selects all rows that are shown, or none.
	#select(is) {
		for (const row of this.#rows) row.check.checked = is && row.element.isConnected;
		this.#selected();
	}

	#selected() {
		const rows = this.#rows.filter((row) => row.check.checked);
		for (const row of this.#rows) row.element.classList.toggle("picked", row.check.checked);
		this.#all.checked = rows.length > 0 && rows.length === this.#body.children.length;
		this.#all.indeterminate = rows.length > 0 && !this.#all.checked;
		this.#bar.show(rows);
	}

	// next adds a page.
	async #next() {
		this.#more.disabled = this.#loading = true;
		this.#slot.replaceChildren();
		try {
			const page = await get("folder", { group: this.#g.id, folder: this.#folder, after: this.#after });
			this.#add(page);
			this.#draw();
			return true;
		} catch (error) {
			this.#slot.replaceChildren(failure(error));
			return false;
		} finally {
			this.#more.disabled = this.#loading = false;
		}
	}

	// rest fetches what has not come, where that can change what is seen.
	async #rest() {
		if (this.#loading) return;
		const isNeeded = () => this.#after && this.#rows.length < mostRows && (this.#filter.value || order.by !== "name" || order.down);
		while (isNeeded() && (this.#rows.length === 0 || this.#body.isConnected || this.#rows.length <= 100) && await this.#next());
	}

	#draw() {
		for (const [by, th] of this.#heads) {
			if (by === order.by) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
			else th.removeAttribute("aria-sort");
		}
		const words = this.#filter.value.toLowerCase();
		const sign = order.down ? -1 : 1;
		const shown = this.#rows.filter((r) => r.name.toLowerCase().includes(words)).sort((a, b) => {
			if (a.isFolder !== b.isFolder) return a.isFolder ? -1 : 1;
			const by = typeof a[order.by] === "number" ? a[order.by] - b[order.by] : collator.compare(a[order.by], b[order.by]);
			return sign * by || collator.compare(a.name, b.name);
		});
		const had = document.activeElement;
		this.#body.replaceChildren(...shown.map((r) => r.element));
		if (had !== document.activeElement) had.focus({ preventScroll: true });
		for (const row of this.#rows) row.check.checked &&= row.element.isConnected; // nothing unseen is selected
		this.#selected();
		this.#more.hidden = !this.#after;
		const looked = `${this.#after ? "the first " : ""}${this.#rows.length}`;
		this.#count.textContent = words ? `${shown.length} of ${looked} ${this.#rows.length === 1 ? "name" : "names"} shown` : this.#after ? `${plural(this.#rows.length, "name")} of more` : "";
	}

	#folderRow({ folder }, pick) {
		return h("tr", { class: "folder", "data-folder": folder.folder }, pick,
			h("th", { scope: "row", class: "file-name" }, icon("folder"), h("a", { href: place("groups", this.#g.id, folder.folder) }, folder.shown)),
			cell("Size"), cell("Changed"), cell("Saved by"), this.#g.role && cell("Download"));
	}

	#fileRow(row, pick) {
		const g = this.#g, { file: f, name } = row, more = attributes(f.attributes);
		if (g.role) [row.button, row.slot] = downloadButton(g, this.#session, f, name);
		return h("tr", null, pick,
			h("th", { scope: "row", class: "file-name" }, icon("file"), f.filename ? h("a", { href: place("file", g.id, f.filename) }, name) : h("span", null, name),
				f.backend === "Ipfs" && h("span", { class: "badge" }, "legacy"), more && h("span", { class: "hint" }, more), row.slot),
			cell("Size", bytes(f.original_size)), cell("Changed", changedAt(f) ? h("span", { title: date(changedAt(f)) }, shortDate(changedAt(f))) : "unknown"),
			cell("Saved by", h("span", { title: f.user_id }, person(f.user_id, this.#session))), g.role && cell("Download", row.button));
	}
}
