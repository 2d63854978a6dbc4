// The list of what operators changed: who, what, when, before and after.

import { byId, el, setText, setVisible } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { explain, runAction, send } from "./requests.js";

const PAGE_SIZE = 20;

let lastId = "";

byId("changes-refresh").addEventListener("click", (event) => void runAction(event.target, load));
byId("changes-more").addEventListener("click", (event) => void runAction(event.target, loadMore));

/** Loads the newest changes. */
export async function load() {
  lastId = "";
  byId("changes").replaceChildren();
  await loadMore();
}

async function loadMore() {
  try {
    const page = await send("GET", `/changes?${new URLSearchParams({ before: lastId, limit: PAGE_SIZE })}`);
    byId("changes").append(...page.map(row));
    lastId = page.at(-1)?.id ?? lastId;
    setVisible(byId("changes-more"), page.length === PAGE_SIZE);
    setText(byId("changes-trouble"), "");
  } catch (error) {
    setText(byId("changes-trouble"), `The changes cannot be shown: ${explain(error)}`);
  }
}

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
