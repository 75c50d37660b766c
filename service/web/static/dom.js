// Small helpers around the DOM. Every text ends up in a text node: what comes
// from the service is never parsed as markup.

const svgSpace = "http://www.w3.org/2000/svg";

// h makes an HTML element: h("p", {class: "x", onclick: f}, "text", child).
export function h(tag, props, ...children) {
	return fill(document.createElement(tag), props, children);
}

// svg makes an SVG element.
export function svg(tag, props, ...children) {
	return fill(document.createElementNS(svgSpace, tag), props, children);
}

function fill(element, props, children) {
	for (const [name, value] of Object.entries(props ?? {})) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else element.setAttribute(name, value === true ? "" : value);
	}
	element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
	return element;
}

// announce tells screen readers what happened.
export function announce(text) {
	const region = document.getElementById("status");
	region.textContent = "";
	requestAnimationFrame(() => { region.textContent = text; });
}

// refocus moves the keyboard to the heading, where what had the focus is gone.
export function refocus() {
	if (document.activeElement === document.body) document.querySelector("#main h1")?.focus();
}

export function notice(kind, ...children) {
	return h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : undefined }, ...children);
}

// failure shows an error with what to do next.
export function failure(error) {
	return notice("bad", h("strong", null, "That did not work. "), error.message);
}

export function empty(title, text, ...actions) {
	return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", null, text), ...actions);
}

const icons = {
	folder: "M2 5.5A1.5 1.5 0 0 1 3.5 4h4l2 2h7A1.5 1.5 0 0 1 18 7.5v7a1.5 1.5 0 0 1-1.5 1.5h-13A1.5 1.5 0 0 1 2 14.5z",
	down: "M10 3v9m-4-4 4 4 4-4M4 16h12",
	file: "M5 2h6.5L16 6.5V17a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1zm6 1.5V7h3.5",
};

// icon is a small picture, for the eye alone.
export function icon(kind) {
	return svg("svg", { class: `icon icon-${kind}`, viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: icons[kind] }));
}

// cell is a cell of a table, which a phone shows with its label.
export function cell(label, ...children) {
	return h("td", { "data-label": label }, ...children);
}

export function badge(text, kind) {
	return h("span", { class: `badge ${kind ?? ""}` }, text);
}

// mono shows an id or hash; a long one is cut in the middle, whole as title.
export function mono(text, most = Infinity) {
	const shown = text.length > most ? `${text.slice(0, most / 2)}…${text.slice(-most / 2)}` : text;
	return h("code", { title: shown === text ? undefined : text }, shown);
}

// copyButton copies a text and says so.
export function copyButton(text, what) {
	const button = h("button", { type: "button", class: "small", "aria-label": `Copy ${what}` }, "Copy");
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(text);
			button.textContent = "Copied";
			announce(`${what} copied`);
		} catch {
			button.textContent = "Select it and press Ctrl+C";
		}
		setTimeout(() => { button.textContent = "Copy"; }, 3000);
	});
	return button;
}

// held runs work with the button disabled, which gets the focus back that it loses by that.
export async function held(button, work) {
	const had = document.activeElement === button;
	button.disabled = true;
	try {
		return await work();
	} finally {
		button.disabled = false;
		if (had && document.activeElement === document.body) button.focus();
	}
}

// busy runs work with the button disabled, and shows its failure behind it.
export function busy(button, slot, work) {
	slot.replaceChildren();
	return held(button, async () => {
		try {
			return await work();
		} catch (error) {
			slot.replaceChildren(failure(error));
			return undefined;
		}
	});
}

// ask opens a dialog and resolves to true when it was confirmed. Escape and
// Cancel mean no; where there is nothing to choose, no is "".
export function ask({ title, body, yes, no = "Cancel", danger = false }) {
	return openDialog(title, (close) => {
		const confirm = h("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => close(true) }, yes);
		const cancel = h("button", { type: "button", autofocus: danger, onclick: () => close(false) }, no);
		if (!danger) confirm.setAttribute("autofocus", "");
		return [...body, h("div", { class: "actions" }, confirm, no && cancel)];
	}).then((answer) => answer === true);
}

// askForm opens a dialog with fields. submit gets the form's data; the dialog
// stays with the error until it succeeds, and resolves to what submit returned.
export function askForm({ title, fields, yes, submit }) {
	return openDialog(title, (close) => {
		const slot = h("div");
		const confirm = h("button", { type: "submit", class: "primary" }, yes);
		const form = h("form", null, ...fields, slot,
			h("div", { class: "actions" }, confirm, h("button", { type: "button", onclick: () => close() }, "Cancel")));
		form.addEventListener("submit", async (event) => {
			event.preventDefault();
			const answer = await busy(confirm, slot, () => submit(new FormData(form)));
			if (answer !== undefined) close(answer);
		});
		return [form];
	});
}

function openDialog(title, content) {
	return new Promise((resolve) => {
		let answer;
		const heading = h("h2", { id: "dialog-title" }, title);
		const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, heading);
		fill(dialog, null, content((value) => { answer = value; dialog.close(); }));
		const leave = () => dialog.close(); // it belongs to the page that is left
		window.addEventListener("hashchange", leave);
		dialog.addEventListener("close", () => {
			window.removeEventListener("hashchange", leave);
			dialog.remove();
			resolve(answer);
		});
		document.body.append(dialog);
		dialog.showModal();
	});
}

// roleField lets choose what a member may do.
export function roleField(label, name, value = "writer") {
	const options = { writer: "writer: reads and saves files", reader: "reader: reads, and changes nothing" };
	return field(label, "", h("select", { name }, Object.entries(options).map(([role, text]) =>
		h("option", { value: role, selected: role === value }, text))));
}

// field is a labelled input.
export function field(label, hint, input) {
	const id = `f-${input.name}`;
	input.id = id;
	if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
	return h("div", { class: "field" }, h("label", { for: id }, label), input, hint && h("p", { class: "hint", id: `${id}-hint` }, hint));
}
