// Dead letters: orders that could not be written, to look at and to replay.

import { byId, el, say, show } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { doing, explain, send } from "./desk.js";

byId("letters-refresh").addEventListener("click", (event) => void doing(event.target, load));

/** Loads the list. */
export async function load() {
  try {
    const { dead_letters: letters } = await send("GET", "/dead-letters");
    byId("letters").replaceChildren(...letters.map(row));
    show(byId("no-letters"), letters.length === 0);
    say(byId("letters-trouble"), "");
  } catch (error) {
    say(byId("letters-trouble"), `The dead letters cannot be shown: ${explain(error)}`);
  }
}

function row(letter) {
  const replay = async ({ target }) => {
    const path = `/dead-letters/${encodeURIComponent(letter.order_no)}/replay`;
    await doing(target, () => send("POST", path, {}), `${letter.order_no} is on its way again.`);
    await load();
  };
  return el(
    "tr",
    { testid: "letter" },
    el("td", {}, letter.order_no),
    el("td", {}, letter.reason ?? ""),
    el("td", {}, letter.created_at ? moment(letter.created_at) : ""),
    el("td", { class: "row-actions" }, el("button", { type: "button", class: "button", onclick: replay }, "Replay")),
  );
}
