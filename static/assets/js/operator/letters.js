// Dead letters: orders that could not be written, to look at and to replay.

import { byId, el, say, show } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { doing, explain, send } from "./desk.js";

const PAGE = 200;

let last = "";

byId("letters-refresh").addEventListener("click", (event) => void doing(event.target, load));
byId("letters-more").addEventListener("click", (event) => void doing(event.target, more));

/** Loads the list from its beginning: what waits for an operator comes first. */
export async function load() {
  last = "";
  byId("letters").replaceChildren();
  await more();
}

async function more() {
  try {
    const letters = await send("GET", `/dead-letters?${new URLSearchParams({ before: last, limit: PAGE })}`);
    byId("letters").append(...letters.map(row));
    last = letters.at(-1)?.order_no ?? last;
    show(byId("letters-more"), letters.length === PAGE);
    show(byId("no-letters"), byId("letters").childElementCount === 0);
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
    el("td", {}, moment(letter.died_at)),
    el("td", { class: "row-actions" }, el("button", { type: "button", class: "button", onclick: replay }, "Replay")),
  );
}
