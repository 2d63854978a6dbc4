// Buyers who may not take part: bans by operators, and strikes.

import { byId, el, setText } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { confirm } from "./dialog.js";
import { open } from "./frame.js";
import { pagedList } from "./paged-list.js";
import { button, section } from "./parts.js";
import { runAction, send } from "./requests.js";
import { t } from "./words.js";

let bans = null;

open("buyers", (main) => {
  const user = new URLSearchParams(location.search).get("user") ?? "";
  bans = pagedList("bans", { path: "/bans", pageSize: 50, make: (items) => items.map(row), properties: { class: "card bans" }, empty: t("bans.none") });
  main.append(
    el("h1", {}, t("nav.buyers")),
    el("div", { class: "columns" }, section(t("ban"), { id: "ban-section" }, banForm(user)), section(t("strikes"), { id: "strikes-section" }, strikesForm(user))),
    section(t("bans"), { id: "bans-section" }, bans.node),
  );
  bans.follow();
  if (user) byId("strikes").requestSubmit();
});

const field = (id, label, properties = {}, size = "") =>
  el("p", { class: `field ${size}` }, el("label", { for: id }, label), el("input", { id, autocomplete: "off", ...properties }));

function banForm(user) {
  const kinds = el("select", { id: "ban-kind" }, ["user", "ip"].map((kind) => el("option", { value: kind }, t(`ban.${kind}`))));
  return el(
    "form", { id: "ban", class: "card", testid: "ban-form", onsubmit: (event) => void ban(event) },
    el("div", { class: "pair" },
      el("p", { class: "field small" }, el("label", { for: "ban-kind" }, t("ban.kind")), kinds),
      field("ban-name", t("ban.who"), { required: true, value: user })),
    el("div", { class: "pair" },
      field("ban-minutes", t("ban.minutes"), { type: "number", min: 1, value: 60, required: true }, "small"),
      field("ban-reason", t("reason"))),
    el("p", { class: "actions" }, button("ban-lift", t("ban.lift"), ({ target }) => byId("ban-name").reportValidity() && void lift(target, banned())),
      el("button", { class: "button primary", testid: "ban-set" }, t("ban.set"))),
  );
}

const row = ({ kind, name, until, reason }) => el("li", { testid: "ban" },
  el("span", { class: "exact" }, name), el("span", { class: "quiet" }, [t(`ban.${kind}`), reason].filter(Boolean).join(" · ")),
  el("span", { class: "quiet" }, t("ban.until", { time: exactMoment(until) })),
  button("", t("ban.lift"), ({ target }) => void lift(target, { kind, name })));

const banPath = ({ kind, name }) => `/bans/${kind}/${encodeURIComponent(name)}`;

async function ban(event) {
  event.preventDefault();
  const ban = banned();
  if (ban.name !== ban.name.trim() && !(await confirm({ title: t("ban.space", { name: ban.name }), yes: t("ban.set"), no: t("ban.correct") }))) return;
  const [minutes, reason] = [byId("ban-minutes").value, byId("ban-reason").value];
  const body = { seconds: Number(minutes) * 60, reason };
  await runAction(event.submitter ?? event.target.querySelector(".primary"), () => send("PUT", banPath(ban), body), t("ban.done", { name: ban.name, minutes }));
  await bans.load();
}

async function lift(button, ban) {
  await runAction(button, () => send("DELETE", banPath(ban)), t("ban.lifted", { name: ban.name }));
  await bans.load();
}

/** Whom the form of bans names. White space is part of a user's name. */
function banned() {
  const [kind, name] = [byId("ban-kind").value, byId("ban-name").value];
  return { kind, name: kind === "user" ? name : name.trim() };
}

const strikesForm = (user) => el(
  "form", { id: "strikes", class: "card", testid: "strikes-form", onsubmit: (event) => void showStrikes(event) },
  field("strikes-user", t("ban.user"), { required: true, value: user }),
  el("p", { id: "strikes-result", class: "exact", role: "status" }),
  el("p", { class: "actions" }, button("strikes-clear", t("strikes.clear"), ({ target }) => void clearStrikes(target)),
    el("button", { class: "button primary", testid: "strikes-show" }, t("strikes.show"))),
);

async function showStrikes(event) {
  event.preventDefault();
  const { user, path } = strikes();
  const found = await runAction(event.target.querySelector(".primary"), () => send("GET", path));
  if (found) setText(byId("strikes-result"), describe(user, found));
}

async function clearStrikes(button) {
  if (!byId("strikes-user").reportValidity()) return;
  const { user, path } = strikes();
  if (!(await confirm({ title: t("strikes.ask", { user }), yes: t("strikes.clear") }))) return;
  await runAction(button, () => send("DELETE", path), t("strikes.cleared", { user }));
  setText(byId("strikes-result"), "");
}

function strikes() {
  const user = byId("strikes-user").value;
  return { user, path: `/strikes/${encodeURIComponent(user)}` };
}

const describe = (user, { count, limit, last_at: last }) =>
  t("strikes.result", { user, count, limit }) + (last ? t("strikes.last", { time: exactMoment(last) }) : "");
