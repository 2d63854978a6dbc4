// The list of what operators changed, newest first.

import { byId, el } from "../shared/dom.js";
import { changeList } from "./change-words.js";
import { open } from "./frame.js";
import { pagedList } from "./paged-list.js";
import { t } from "./words.js";

open("changes", (main) => {
  main.append(el("h1", {}, t("nav.changes")), el("p", { class: "quiet" }, t("changes.what")));
  const list = pagedList("changes", { path: "/changes", pageSize: 20, make: changeList, tag: "ul", properties: { class: "changes card" } });
  main.append(list.node);
  list.follow();
});
