// The page that an OpenID Connect provider sends visitors back to: gets their token, and returns to where they began.

import { byId, setText, setVisible } from "../shared/dom.js";
import { t } from "../shared/i18n.js";
import * as shell from "../shared/shell.js";
import { loadWay } from "../shared/sign-in.js";

shell.start();
// With a token that is still good, the page goes on by itself.
byId("try-again").addEventListener("click", async () => (await shell.signIn()) && location.reload());
try {
  const way = await loadWay();
  location.replace(way.finish ? await way.finish() : "/");
} catch (error) {
  // An expired attempt, a visitor who declined, or a provider that is away.
  console.info("sign-in failed:", error.code ?? error.name, error.message);
  setText(byId("state"), t(error.reason ? `sign_in.no_${error.reason}` : "sign_in.failed"));
  setVisible(byId("spinner"), false);
  setVisible(byId("failed"), true);
}
