// The list of what operators changed, newest first.

import { byId, el } from "../shared/dom.js";
import { changeList } from "./change-words.js";
import { open } from "./frame.js";
import { pagedList } from "./paged-list.js";
import { t } from "./words.js";

open("changes", (main) => {
  const activity = new URLSearchParams(location.search).get("activity");
  main.append(
    ...(activity ? [el("a", { class: "back", href: `/admin/sale?${new URLSearchParams({ id: activity })}` }, `← ${activity}`)] : []),
    el("h1", {}, t("nav.changes")), el("p", { class: "quiet" }, t("changes.what")),
  );
  const path = activity ? `/changes?${new URLSearchParams({ activity })}` : "/changes";
  const list = pagedList("changes", { path, pageSize: 20, make: changeList, tag: "ul", properties: { class: "changes card" } });
  main.append(list.node);
  list.follow();
});
