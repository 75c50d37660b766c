// Manage Account: id, balance, API key.

import { post } from "./api.js";
import { announce, ask, busy, copyButton, h, mono, notice } from "./dom.js";
import { price } from "./text.js";

export async function accountView(draw, session, refresh) {
	draw(
		h("h1", { tabindex: "-1" }, "Manage Account"),
		h("p", { class: "lead" }, "Who you are here, what you can spend, and the key your programs use."),
		h("div", { class: "grid" }, identity(session), balance(session)),
		keyCard(session, refresh));
}

function identity(session) {
	return h("section", { class: "card", "aria-labelledby": "account-id" },
		h("h2", { id: "account-id" }, "Account"),
		h("p", { class: "row" }, h("code", { class: "big", id: "account" }, session.account_id), copyButton(session.account_id, "Account id")),
		h("p", { class: "hint" }, "Others need this id to add you to their groups."));
}

function balance(session) {
	const name = session.account_id.split(".")[0];
	return h("section", { class: "card", "aria-labelledby": "balance-title" },
		h("h2", { id: "balance-title" }, "Balance"),
		h("p", { class: "amount" }, h("span", { id: "balance" }, session.balance), " tokens"),
		h("p", { class: "hint" }, `Reading a file: ${price(session.fees.retrieve)}. Saving one: ${price(session.fees.upload)}. Listing is free.`),
		session.balance === "0" && notice("warn", "Nothing left to spend. The operator adds tokens: ", mono(`svcd account fund ${name} 10`)));
}

function keyCard(session, refresh) {
	const slot = h("div", { id: "key-slot" });
	const about = h("p", null, session.has_key
		? "Your key was shown when it was made. It cannot be shown again, only replaced."
		: "Programs sign in with an API key: svcfs, the SDKs and the agent scripts. You have none yet.");
	const card = h("section", { class: "card", "aria-labelledby": "key-title" }, h("h2", { id: "key-title" }, "API key"));
	const button = session.has_key
		? h("button", { type: "button", id: "rotate" }, "Rotate this key")
		: h("button", { type: "button", class: "primary", id: "generate" }, "Generate API key");
	button.addEventListener("click", async () => {
		if (session.has_key && !await confirmRotation()) return;
		const made = await busy(button, slot, () => post("key", { replace: session.has_key }));
		if (!made) return;
		slot.replaceChildren(shownKey(made.api_key, session.has_key));
		about.hidden = true;
		announce("A new API key is shown. Save it now.");
		session.has_key = (await refresh()).has_key;
		button.textContent = "Rotate this key";
		button.className = "";
		button.id = "rotate";
	});
	card.append(about, slot, h("p", null, button), usage(session));
	return card;
}

function confirmRotation() {
	return ask({
		title: "Rotate this key?", yes: "Yes, rotate key", danger: true,
		body: [h("p", null, "The present key stops working at once, everywhere: every mount and program that uses it needs the new one."),
			h("p", { class: "hint" }, "You stay signed in on this page.")],
	});
}

// shownKey is the one place a key is ever drawn; leaving the view forgets it.
function shownKey(key, replaced) {
	return notice("warn",
		h("p", null, h("strong", null, "Save this key now. It is not shown again.")),
		h("p", { class: "row" }, h("code", { class: "big key", id: "api-key" }, key), copyButton(key, "API key")),
		replaced && h("p", null, "The previous key is invalid."));
}

function usage(session) {
	const url = new URL("..", location.href).href.replace(/\/$/, "");
	return h("details", null, h("summary", null, "Use it on a machine"),
		h("pre", null, `export SVC_URL=${url}\nexport SVC_ACCOUNT_ID=${session.account_id}\nexport SVC_API_KEY_FILE=~/svc.key   # holds the key, mode 0600\nsvcfs doctor && svcfs mount ~/groups`));
}
