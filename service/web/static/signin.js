// What somebody sees who is not signed in.

import { post } from "./api.js";
import { busy, h } from "./dom.js";

export function signInView(draw, session, link, done) {
	const slot = h("div");
	const ways = [];
	if (link) ways.push(linkWay(session, link, slot, done));
	if (session.oidc) ways.push(h("p", null, h("a", { class: "button primary", href: "oidc/start" }, `Sign in with ${session.oidc}`)));
	draw(h("div", { class: "sign-in card" },
		h("h1", { tabindex: "-1" }, "Sign in"),
		...ways, slot,
		!link && h("p", null, "Ask the operator of this service for a sign-in link:"),
		!link && h("pre", null, "svcd account link NAME"),
		!link && h("p", { class: "hint" }, "A link works once, for 15 minutes. Programs do not sign in here; they use the API key.")));
}

// linkWay asks for one click: a preview that opens the address uses nothing up.
function linkWay(session, link, slot, done) {
	const button = h("button", { type: "button", class: "primary", id: "use-link" }, "Sign in");
	button.addEventListener("click", async () => {
		const signedIn = await busy(button, slot, () => post("sign-in", { link }));
		if (signedIn) done();
	});
	return h("div", null,
		h("p", null, "This link signs you in on this browser, once."),
		session.account_id && h("p", null, `You are signed in as ${session.account_id}; that ends.`),
		h("p", null, button));
}
