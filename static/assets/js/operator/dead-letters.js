// The list of dead letters (orders that could not be written), with a button to replay each.

import { el } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { pagedList } from "./paged-list.js";
import { runAction, send } from "./requests.js";

/** Loads the first page of the list. Letters that wait for an operator come first. */
export const load = pagedList("letters", {
  path: "/dead-letters",
  pageSize: 200,
  row,
  title: "dead letters",
});

function row(deadLetter) {
  const replay = async ({ target }) => {
    const path = `/dead-letters/${encodeURIComponent(deadLetter.order_no)}/replay`;
    await runAction(target, () => send("POST", path, {}), `${deadLetter.order_no} is on its way again.`);
    await load();
  };
  return el(
    "tr",
    { testid: "letter" },
    el("td", {}, deadLetter.order_no),
    el("td", {}, deadLetter.reason ?? ""),
    el("td", {}, exactMoment(deadLetter.died_at)),
    el("td", { class: "row-actions" }, el("button", { type: "button", class: "button", onclick: replay }, "Replay")),
  );
}
