// How names, numbers, times and actions are written.

const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|(?!\p{Variation_Selector})\p{Default_Ignorable_Code_Point}/u;
const escaped = new RegExp(`${unseen.source}|%`, "gu");

// visible writes characters nobody sees, or that turn the direction of what
// follows, as a mount does: a name is not what it looks like otherwise. Names of
// files come from the service, as a mount shows them.
export function visible(name) {
	return unseen.test(name) ? name.replace(escaped, (c) => encodeURIComponent(c)) : name;
}

const longestName = 255; // bytes of a component

// unfit tells why a component of a name cannot be recorded; "" if it can.
export function unfit(name) {
	if (name === "" || name === "." || name === "..") return "a name is not empty, and not . or ..";
	if (name.includes("/")) return "a name is without a slash";
	if (/\p{Cc}/u.test(name)) return "its name has a control character";
	return new TextEncoder().encode(name).length > longestName ? `its name is longer than ${longestName} bytes` : "";
}

// unfitPath is unfit for each component of a path.
export function unfitPath(path) {
	return path.split("/").map(unfit).find((why) => why) ?? "";
}

// nameOf is the last component of the name of a file, as a mount shows it.
export function nameOf(file) {
	return file.shown.split("/").at(-1);
}

const conflictForm = /^(.*) \(conflict ([^\s/]+) \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d(?: [1-9]\d*)?\)(\.[^./]*)?$/s;

// meantFor is the name that a save was meant for which met one of somebody else, as a mount
// names it; undefined for other files, also where the name tells of another account.
export function meantFor(file) {
	const [, stem, account, ext = ""] = file.filename.match(conflictForm) ?? [];
	return account !== undefined && account === file.user_id ? stem + ext : undefined;
}

export function bytes(n) {
	if (n === null || n === undefined) return "unknown";
	if (n < 1000) return `${n} B`;
	const units = ["kB", "MB", "GB", "TB"];
	let value = n, unit = -1;
	while (value >= 999.5 && unit < units.length - 1) {
		value /= 1000;
		unit++;
	}
	return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const dateForm = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function date(ms) {
	return dateForm.format(new Date(ms));
}

const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "numeric" });
const otherYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

// shortDate is a date in a list.
export function shortDate(ms) {
	const day = new Date(ms);
	return (day.getFullYear() === new Date().getFullYear() ? thisYear : otherYear).format(day);
}

// nsToMS reads the decimal nanoseconds of a record.
export function nsToMS(ns) {
	return Number(BigInt(ns) / 1000000n);
}

export function plural(n, one, many = `${one}s`) {
	return `${n} ${n === 1 ? one : many}`;
}

const actionNames = {
	create_account: "Account created", disable_account: "Account disabled", enable_account: "Account enabled", delete_account: "Account deleted", fund: "Tokens added", transfer: "Tokens sent", rotate_api_key: "API key made", seal_api_key: "API key taken sealed alone", sign_in: "Signed in to this page", register_group: "Group created",
	add_group_member: "Member added", revoke_group_member: "Member revoked", set_member_role: "Role given", rotate_group_key: "Group key rotated", join_group: "Group joined",
	open_hackathon_join: "Join window opened", close_hackathon_join: "Join window closed", set_group_retention: "Retention set",
	record_transaction: "File uploaded", claim_token: "File retrieved", tombstone_transaction: "File deleted", rename_file: "File renamed", rename_folder: "Folder renamed", make_folder: "Folder made", remove_folder: "Folder removed", pend_destruction: "Destruction waits", keep_files: "Files kept",
	remove_file: "File removed", restore_file: "File brought back", set_group_trash: "Trash set", set_group_versions: "Versions set", set_group_format: "Format set", set_group_appends: "Appends set", set_group_keys: "Keys set", set_attributes: "Attributes set",
	create_invite: "Invite made", revoke_invite: "Invite revoked",
	offer_group: "Group offered", accept_group: "Group taken over", delete_group: "Group deleted",
};

export function action(kind) {
	return actionNames[kind] ?? kind;
}

// detail tells what a record's kind needs beside it.
export function detail(record) {
	switch (record.kind) {
	case "fund": case "create_account": return `${record.detail} tokens`;
	case "rename_folder": return `${record.folder} is ${record.detail} now, with ${plural(Number(record.files), "version")} of files`;
	case "transfer": return `to ${record.detail.split(" ")[0]}`;
	case "set_group_retention": return record.detail === "none" ? "for ever" : `${record.detail} days`;
	case "remove_file": return record.detail ? `can be brought back until ${date(nsToMS(record.detail))}` : "can be brought back";
	case "set_attributes": return `${record.name}: ${attributesSet(record.attributes)}`;
	case "set_group_trash": return `${plural(Number(record.detail.split(" ")[0]), "day")}, by ${record.detail.split(" ")[1]}`;
	case "set_group_versions": return keepText(record.detail);
	case "set_group_format": return `new files have at most version ${record.detail}`;
	case "set_group_keys": return record.detail === "sealed" ? "given to svcfs alone" : "given to every program";
	case "set_group_appends": return record.detail === "merge" ? "made on the newer version" : "conflicts";
	case "open_hackathon_join": return openedUntil(...record.detail.split(" "));
	case "pend_destruction": return pendingText(record.detail.split(" "));
	case "offer_group": return offerText(record.detail.split(" "));
	case "create_invite": return record.group ? inviteMade(record.detail.split(" ")) : record.detail;
	case "set_member_role": return record.detail.replace(" ", " is a ");
	case "tombstone_transaction": return `because ${reason(record.detail)}`;
	default: return record.detail;
	}
}

// attributes tells in words what is recorded beside the content of a file, but for when it changed.
export function attributes(text) {
	const { executable, target, xattrs } = text ? JSON.parse(text) : {};
	return [target && `link to ${visible(target)}`, executable && "program",
		xattrs && plural(Object.keys(xattrs).length, "extended attribute")].filter(Boolean).join(", ");
}

// changedAt is when a file changed, in ms: as its uploader says, else when it was saved; 0 = unknown.
export function changedAt(f) {
	const { mtime } = f.attributes ? JSON.parse(f.attributes) : {};
	return mtime ? nsToMS(mtime) : f.timestamp ? nsToMS(f.timestamp) : 0;
}

// person is an account as others of its service call it.
export function person(id, session) {
	if (id === session.account_id) return "you";
	const home = session.account_id.slice(session.account_id.indexOf("."));
	return id.endsWith(home) && !id.slice(0, -home.length).includes(".") ? id.slice(0, -home.length) : id;
}

export function shellWord(text) {
	return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function attributesSet(text) {
	const { mtime } = text ? JSON.parse(text) : {};
	return [attributes(text), mtime && `changed ${date(nsToMS(mtime))}`].filter(Boolean).join(", ") || "none";
}

function pendingText(words) {
	const until = date(nsToMS(words.at(-1)));
	if (words[0] === "group") return `the whole group, until ${until}`;
	if (words.length !== 3) return `until ${until}`;
	return words[0] === "versions" ? `keeping ${keepText(words[1])}, until ${until}` : `retention of ${plural(Number(words[1]), "day")}, until ${until}`;
}

function offerText([to, from, until]) {
	return until ? `to ${to}, who may become the owner from ${date(nsToMS(from))} until ${date(nsToMS(until))}` : "to nobody any more";
}

// keepText says which versions a setting keeps.
export function keepText(keep) {
	if (keep === "all") return "all versions";
	if (keep.endsWith("d")) return `older versions for ${plural(Number(keep.slice(0, -1)), "day")}`;
	return `the newest ${plural(Number(keep), "version")} of each name`;
}

function openedUntil(until, role) {
	return /^\d+$/.test(until) ? `until ${date(nsToMS(until))}${role ? `, for ${role}s` : ""}` : "";
}

function inviteMade([id, role, until]) {
	return `${id}, for a ${role}, until ${date(nsToMS(until))}`;
}

const reasons = {
	MemberRevocation: "a member was revoked", OwnerRequest: "the owner asked for it",
	RetentionPolicy: "the retention of the group ended", ComplianceRequest: "a compliance request",
	VersionPolicy: "newer versions replaced it",
};

export function reason(code) {
	return reasons[code] ?? code;
}

const places = 24; // of a token

// units is an amount of tokens in its smallest units, exactly.
function units(tokens) {
	const [whole, part = ""] = tokens.split(".");
	return BigInt(whole + part.padEnd(places, "0"));
}

export function tokensOf(n) {
	const digits = String(n).padStart(places + 1, "0");
	return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "");
}

// times multiplies an amount of tokens, plus adds amounts, and isLess compares two; undefined is none.
export function times(tokens, n) {
	return tokensOf(units(tokens ?? "0") * BigInt(n));
}

export function plus(...amounts) {
	return tokensOf(amounts.reduce((sum, tokens) => sum + units(tokens ?? "0"), 0n));
}

export function isLess(a, b) {
	return units(a) < units(b);
}

export function price(tokens) {
	return tokens === undefined || tokens === "0" ? "free" : `${tokens} tokens`;
}
