// A list of the operator's page: its first page, "Refresh", and "More" for the pages after it.

import { byId, setText, setVisible } from "../shared/dom.js";
import { explain, runAction, send } from "./requests.js";

/**
 * Makes the list whose elements have ids from `name`, of the entries at `path` below `/api/admin`. `row(entry)` makes an
 * entry's row; `title` is what operators call the entries. Returns a function that loads the first page.
 */
export function pagedList(name, { path, pageSize, row, title }) {
  let next = "";
  let latestLoad = 0;

  const load = () => show("", (latestLoad += 1));
  const loadMore = () => show(next, latestLoad);

  /** Shows the page that begins at `start`. An answer that a later load has overtaken is left out: its entries may be older. */
  async function show(start, loadNumber) {
    const isOvertaken = () => loadNumber !== latestLoad || (start && start !== next);
    try {
      const page = await send("GET", `${path}?${new URLSearchParams({ before: start, limit: pageSize })}`);
      if (isOvertaken()) return;
      if (!start) byId(name).replaceChildren();
      byId(name).append(...page.items.map(row));
      next = page.next;
      setVisible(byId(`${name}-more`), next !== null);
      setVisible(byId(`no-${name}`), byId(name).childElementCount === 0);
      setText(byId(`${name}-trouble`), "");
    } catch (error) {
      if (!isOvertaken()) setText(byId(`${name}-trouble`), `The ${title} cannot be shown: ${explain(error)}`);
    }
  }

  byId(`${name}-refresh`).addEventListener("click", ({ target }) => void runAction(target, load));
  byId(`${name}-more`).addEventListener("click", ({ target }) => void runAction(target, loadMore));
  return load;
}
