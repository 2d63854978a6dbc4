// A list of the operator's page: its first page, "Refresh", and "More" for the pages after it.

import { byId, setText, setVisible } from "../shared/dom.js";
import { explain, runAction, send } from "./requests.js";

/**
 * Makes the list whose elements have ids from `name`. `query(last)` is the path of the page that follows the entry `last`,
 * or of the first one; `row(entry)` makes an entry's row; `title` is what operators call the entries. Returns a function
 * that loads the first page.
 */
export function pagedList(name, { pageSize, query, row, title }) {
  let last;
  let latestLoad = 0;

  const load = () => show(undefined, (latestLoad += 1));
  const loadMore = () => show(last, latestLoad);

  /** Shows the page after `start`. An answer that a later load has overtaken is left out: its entries may be older. */
  async function show(start, loadNumber) {
    const isOvertaken = () => loadNumber !== latestLoad || (start && start !== last);
    try {
      const page = await send("GET", query(start));
      if (isOvertaken()) return;
      if (!start) byId(name).replaceChildren();
      byId(name).append(...page.map(row));
      last = page.at(-1) ?? start;
      setVisible(byId(`${name}-more`), page.length === pageSize);
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
