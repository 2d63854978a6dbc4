// The editor's rows for the limits of reservations: per user, per address and for all orders.

import { byId, el } from "../shared/dom.js";

const KINDS = [["user", "Per user"], ["ip", "Per address"], ["all", "Orders in all"]];
const CHOICES = [["default", "Default"], ["none", "No limit"], ["set", "This many"]];

/** Shows the limits: an absent one is the default, `null` is no limit. */
export function fillLimits(limits) {
  byId("f-limits").replaceChildren(...KINDS.map(([kind, label]) => row(kind, label, limits[kind])));
}

/** Reads the limits from the form, in the format of the API. */
export function readLimits() {
  const limits = {};
  for (const [kind] of KINDS) {
    const choice = byId(`f-limit-${kind}`).value;
    if (choice === "none") limits[kind] = null;
    if (choice === "set") {
      limits[kind] = {
        count: Number(byId(`f-limit-${kind}-count`).value),
        seconds: Number(byId(`f-limit-${kind}-seconds`).value),
      };
    }
  }
  return limits;
}

function row(kind, label, limit) {
  const choice = limit === undefined ? "default" : limit === null ? "none" : "set";
  const select = el(
    "select",
    { id: `f-limit-${kind}`, "data-pointer": `/limits/${kind}` },
    CHOICES.map(([value, text]) => el("option", { value }, text)),
  );
  select.value = choice;
  const count = numberField(`f-limit-${kind}-count`, kind === "all" ? "Orders" : "Requests", limit?.count ?? 60);
  const seconds = numberField(`f-limit-${kind}-seconds`, "in seconds", limit?.seconds ?? 60);
  const update = () => {
    for (const field of [count, seconds]) field.hidden = select.value !== "set";
  };
  select.addEventListener("change", update);
  update();
  return el(
    "div",
    { class: "limit-row", role: "group", "aria-label": label },
    el("p", { class: "field" }, el("label", { for: select.id }, label), select),
    count,
    seconds,
  );
}

const numberField = (id, label, value) =>
  el("p", { class: "field" }, el("label", { for: id }, label), el("input", { id, type: "number", min: 1, required: true, value }));
