// What somebody sees who is not signed in.

import { post } from "./api.js";
import { busy, h } from "./dom.js";

export async function signInView(draw, session, link, done) {
	const slot = h("div");
	const ways = [];
	if (link) ways.push(await linkWay(session, link, slot, done));
	if (session.oidc) ways.push(h("p", null, h("a", { class: "button primary", href: "oidc/start" }, `Sign in with ${session.oidc}`)));
	draw(h("div", { class: "sign-in card" },
		h("h1", { tabindex: "-1" }, "Sign in"),
		...ways, slot,
		!link && h("p", null, "Ask the operator of this service for a sign-in link:"),
		!link && h("pre", null, "svcd account link NAME"),
		!link && h("p", { class: "hint" }, "A link works once, for 15 minutes. Programs do not sign in here; they use the API key.")));
}

// linkWay says who signs in, and asks for one click: a preview that opens the address uses nothing up.
async function linkWay(session, link, slot, done) {
	const { account_id: id } = await post("sign-in", { link, look: true }).catch(() => ({})); // the click tells why
	const button = h("button", { type: "button", class: "primary", id: "use-link" }, "Sign in");
	button.addEventListener("click", async () => {
		const signedIn = await busy(button, slot, () => post("sign-in", { link }));
		if (signedIn) done();
	});
	return h("div", null,
		h("p", null, "This link signs you in", id && [" as ", h("strong", null, id)], " on this browser, once."),
		session.account_id && h("p", null, `You are signed in as ${session.account_id}; that ends.`),
		id && h("p", { class: "hint" }, "Go on only if this is your account: what you save from then on belongs to it."),
		h("p", null, button));
}
