// The list of what operators changed: who, what, when, before and after.

import { el } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { pagedList } from "./paged-list.js";

/** Loads the newest changes. */
export const load = pagedList("changes", {
  path: "/changes",
  pageSize: 20,
  row,
  title: "changes",
});

function row({ changed_at, operator, action, subject, before, after }) {
  const documents = el(
    "details",
    {},
    el("summary", {}, "Show"),
    before ? el("pre", {}, before) : null,
    el("pre", {}, after),
  );
  return el(
    "tr",
    { testid: "change" },
    el("td", {}, exactMoment(changed_at)),
    el("td", {}, operator),
    el("td", {}, action),
    el("td", { class: "exact" }, subject),
    el("td", {}, before || after ? documents : ""),
  );
}
