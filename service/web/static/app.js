// The account page: who is signed in, and which view the address names.

import { account, actAs, post, who } from "./api.js";
import { announce, busy, failure, h, notice } from "./dom.js";
import { accountView } from "./account.js";
import { fileView } from "./file.js";
import { groupView } from "./group.js";
import { groupsView } from "./groups.js";
import { membersView } from "./members.js";
import { ledgerView } from "./ledger.js";
import { placeOf } from "./place.js";
import { signInView } from "./signin.js";
import { setClock } from "./clock.js";
import { trashView } from "./trash.js";
import { forget, stop } from "./uploads.js";
import { forgetClaims } from "./verify.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const signOut = document.getElementById("sign-out");
const unsigned = h("div"); // why nobody was signed out
const shownAs = document.getElementById("who");

let session = { account_id: "" };
let turn = 0; // a view that was left does not draw any more
let first = true;

let link = ""; // of a one-time link that was opened and not used yet

// takeLink removes a one-time link from the address before anything else, so
// that it is not in the history.
function takeLink() {
	const match = location.hash.match(/^#link=([\w-]+)$/);
	if (match) history.replaceState(null, "", location.pathname);
	link = match?.[1] ?? "";
}

function route() {
	const { view, group, path } = placeOf(location.hash);
	if (view === "groups" && group) return ["Group", (draw) => groupView(draw, session, group, path === undefined ? "" : `${path}/`)];
	if (view === "file" && path) return ["File", (draw) => fileView(draw, session, group, path)];
	if (view === "members" && group) return ["Members", (draw) => membersView(draw, session, group)];
	if (view === "trash" && group) return ["Trash", (draw) => trashView(draw, session, group)];
	if (view === "groups") return ["Groups", (draw) => groupsView(draw, session)];
	if (view === "ledger") return ["Ledger", (draw) => ledgerView(draw, session)];
	return ["Manage Account", (draw) => accountView(draw, session, refresh)];
}

// refresh asks the service who is signed in and what it has.
async function refresh() {
	const now = await who();
	if (now.account_id && account && now.account_id !== account) return startAnew();
	if (now.account_id) actAs(now.account_id);
	session = now;
	setClock(session.now_ms);
	return session;
}

// forgetAccount drops what belongs to the account that was signed in.
function forgetAccount() {
	forget();
	forgetClaims();
}

// startAnew loads the page again for the account that is signed in now: nothing of the one before is left.
function startAnew() {
	history.replaceState({ before: account }, "");
	forgetAccount();
	location.reload();
	return new Promise(() => {});
}

// tellOther says, once, that another account was shown before.
function tellOther() {
	if (!history.state?.before) return;
	document.querySelector("header").append(h("div", { class: "bar" }, notice("warn", `This tab showed ${history.state.before}. Another account signed in on this browser since, and is shown now. Uploads that were not done then were stopped.`)));
	history.replaceState(null, "");
}

async function show(isNew = true) {
	const mine = ++turn;
	main.setAttribute("aria-busy", "true");
	const draw = (...children) => {
		if (mine !== turn) return false;
		main.replaceChildren(...children.filter((c) => c)); // false is what is not shown
		return true;
	};
	try {
		await refresh();
		if (mine !== turn) return;
		const signedIn = session.account_id !== "";
		nav.hidden = signOut.hidden = shownAs.hidden = !signedIn;
		shownAs.lastElementChild.textContent = session.account_id;
		if (!signedIn) stop();
		if (!signedIn || link) {
			document.title = "Sign in · svcfs";
			await signInView(draw, session, link, begin);
			return;
		}
		const [title, view] = route();
		document.title = `${title} · svcfs`;
		markCurrent();
		await view(draw);
	} catch (error) {
		draw(h("h1", { tabindex: "-1" }, "Not shown"), failure(error), h("p", null, h("button", { type: "button", onclick: () => show() }, "Try again")));
	} finally {
		if (mine === turn) main.removeAttribute("aria-busy");
	}
	if (mine === turn && isNew) focusHeading();
}

function begin() {
	link = "";
	history.replaceState(null, "", "#/account");
	show();
}

// focusHeading moves the keyboard to the new view, but not when the page opens.
function focusHeading() {
	if (!first) main.querySelector("h1")?.focus();
	first = false;
}

function markCurrent() {
	const { view = "account" } = placeOf(location.hash);
	const current = `#/${["file", "members", "trash"].includes(view) ? "groups" : view}`;
	for (const a of nav.children) {
		if (a.getAttribute("href") === current) a.setAttribute("aria-current", "page");
		else a.removeAttribute("aria-current");
	}
}

document.getElementById("skip").addEventListener("click", (event) => {
	event.preventDefault();
	main.focus();
});

signOut.addEventListener("click", async () => {
	main.prepend(unsigned);
	if (!await busy(signOut, unsigned, () => post("sign-out", {}))) return;
	forgetAccount();
	actAs("");
	history.replaceState(null, "", location.pathname);
	await show();
	if (session.account_id === "") announce("Signed out");
});

function arrive() {
	takeLink();
	show();
}

window.addEventListener("hashchange", arrive);
window.addEventListener("signed-out", () => { if (session.account_id !== "" && !link) show(); });
window.addEventListener("other-account", startAnew);
// Files were saved: what is shown may have changed, unless its user is at work in it.
window.addEventListener("uploaded", () => {
	const { view } = placeOf(location.hash);
	if (["groups", "file"].includes(view) && !document.querySelector("dialog[open], main button:disabled") && !main.contains(document.activeElement?.closest("form"))) show(false);
});
tellOther();
arrive();
