// The list of dead letters (orders that could not be written), with a button to replay each.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { explain, runAction, send } from "./requests.js";

const PAGE_SIZE = 200;

let lastOrderNo = "";

byId("letters-refresh").addEventListener("click", (event) => void runAction(event.target, load));
byId("letters-more").addEventListener("click", (event) => void runAction(event.target, loadMore));

/** Loads the first page of the list. Letters that wait for an operator come first. */
export async function load() {
  lastOrderNo = "";
  byId("letters").replaceChildren();
  await loadMore();
}

async function loadMore() {
  try {
    const page = await send("GET", `/dead-letters?${new URLSearchParams({ before: lastOrderNo, limit: PAGE_SIZE })}`);
    byId("letters").append(...page.map(row));
    lastOrderNo = page.at(-1)?.order_no ?? lastOrderNo;
    setVisible(byId("letters-more"), page.length === PAGE_SIZE);
    setVisible(byId("no-letters"), byId("letters").childElementCount === 0);
    setText(byId("letters-trouble"), "");
  } catch (error) {
    setText(byId("letters-trouble"), `The dead letters cannot be shown: ${explain(error)}`);
  }
}

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
