// A list of the operators' pages: its first page, which follows what changes, and "More" for the pages after it.

import { el, setText, setVisible } from "../shared/dom.js";
import { every } from "./frame.js";
import { show } from "./parts.js";
import { explain, runAction, send } from "./requests.js";
import { t } from "./words.js";

/** How often the first page is loaded again, in milliseconds. */
const REFRESH_INTERVAL = 5_000;

/**
 * Makes a list of the entries at `path` below `/api/admin`; `make(entries)` makes their nodes. `follow()` loads the first
 * page now and then; `load()` loads it once more, and forgets the others.
 */
export function pagedList(name, { path, pageSize, make, tag = "ul", properties = {}, empty = t("none") }) {
  let [next, latest, hasMore] = ["", 0, false];
  const first = el(tag, { id: name, testid: name, ...properties });
  const rest = el(tag, { hidden: true, ...properties });
  const none = el("p", { id: `no-${name}`, class: "empty quiet", hidden: true }, empty);
  const trouble = el("p", { id: `${name}-trouble`, class: "trouble", role: "status" });
  const more = el("button", { type: "button", class: "button", id: `${name}-more`, hidden: true, onclick: ({ target }) => void runAction(target, loadMore) }, t("more"));
  const separator = path.includes("?") ? "&" : "?";
  const page = (before) => send("GET", `${path}${separator}${new URLSearchParams({ before, limit: pageSize })}`);

  /** An answer that a later load has overtaken is left out: its entries may be older. */
  async function refresh() {
    const number = (latest += 1);
    const { items, next: link } = await page("");
    if (number !== latest) return;
    if (!hasMore) next = link;
    show(first, items, () => make(items));
    setVisible(first, items.length > 0);
    setVisible(none, items.length === 0);
    setVisible(more, next !== null);
  }

  async function loadMore() {
    const start = next;
    const { items, next: link } = await page(start);
    if (start !== next) return;
    [next, hasMore] = [link, true];
    rest.append(...make(items));
    setVisible(rest, true);
    setVisible(more, next !== null);
  }

  async function load() {
    [hasMore, next] = [false, ""];
    rest.replaceChildren();
    setVisible(rest, false);
    await refresh();
  }

  const follow = () => every(REFRESH_INTERVAL, refresh, (error) => setText(trouble, error ? t("out_of_date", { why: explain(error) }) : ""));
  return { node: el("div", { class: "list" }, first, rest, none, trouble, more), follow, load };
}
