// The forms for bans and strikes.

import { byId, setText } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { runAction, send } from "./requests.js";

byId("ban").addEventListener("submit", (event) => {
  event.preventDefault();
  const { kind, name, minutes, reason } = Object.fromEntries(new FormData(event.target));
  const path = `/bans/${kind}/${encodeURIComponent(name.trim())}`;
  const button = event.submitter;
  if (button.value === "lift") void runAction(button, () => send("DELETE", path), `${name} may take part again.`);
  else {
    const body = { seconds: Number(minutes) * 60, reason };
    void runAction(button, () => send("PUT", path, body), `${name} is banned for ${minutes} minutes.`);
  }
});

byId("strikes").addEventListener("submit", async (event) => {
  event.preventDefault();
  const user = byId("strikes-user").value.trim();
  const path = `/strikes/${encodeURIComponent(user)}`;
  const button = event.submitter;
  if (button.value === "clear") {
    await runAction(button, () => send("DELETE", path), `${user} has no strikes any more.`);
    return setText(byId("strikes-result"), "");
  }
  const found = await runAction(button, () => send("GET", path));
  if (found) setText(byId("strikes-result"), describe(user, found));
});

const describe = (user, { count, limit, last_at: last }) =>
  `${user}: ${count} of ${limit} strikes${last ? `, the last ${moment(last)}` : ""}`;
