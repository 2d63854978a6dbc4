// The forms for bans and strikes. Enter submits a form: it bans, or shows strikes. Lifting and clearing need a click.

import { byId, confirmDialog, setText } from "../shared/dom.js";
import { exactMoment } from "../shared/format.js";
import { runAction, send } from "./requests.js";

byId("ban").addEventListener("submit", (event) => {
  event.preventDefault();
  const { name, path } = banned();
  const [minutes, reason] = [byId("ban-minutes").value, byId("ban-reason").value];
  const body = { seconds: Number(minutes) * 60, reason };
  void runAction(event.submitter, () => send("PUT", path, body), `${name} is banned for ${minutes} minutes.`);
});

byId("ban-lift").addEventListener("click", ({ target }) => {
  if (!byId("ban-name").reportValidity()) return;
  const { name, path } = banned();
  void runAction(target, () => send("DELETE", path), `${name} may take part again.`);
});

/** Whom the form of bans names, and the path of their ban. */
function banned() {
  const name = byId("ban-name").value.trim();
  return { name, path: `/bans/${byId("ban-kind").value}/${encodeURIComponent(name)}` };
}

byId("strikes").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { user, path } = strikes();
  const found = await runAction(event.submitter, () => send("GET", path));
  if (found) setText(byId("strikes-result"), describe(user, found));
});

byId("strikes-clear").addEventListener("click", async ({ target }) => {
  if (!byId("strikes-user").reportValidity()) return;
  const { user, path } = strikes();
  if (!(await confirmDialog(`Clear the strikes of ${user}?`, "Clear", "Keep them"))) return;
  await runAction(target, () => send("DELETE", path), `${user} has no strikes any more.`);
  setText(byId("strikes-result"), "");
});

function strikes() {
  const user = byId("strikes-user").value.trim();
  return { user, path: `/strikes/${encodeURIComponent(user)}` };
}

const describe = (user, { count, limit, last_at: last }) =>
  `${user}: ${count} of ${limit} strikes${last ? `, the last ${exactMoment(last)}` : ""}`;
