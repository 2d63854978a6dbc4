// An OpenID Connect provider: npm's `oidc-provider` with one client, the pages.

import { once } from "node:events";
import Provider from "oidc-provider";
import { variable } from "../../support/app.mjs";

/** Starts the provider for the pages at `saleOrigin`. Resolves to `{issuer, provider, stop}`. */
export async function startProvider(saleOrigin) {
  const issuer = `http://127.0.0.1:${variable("PORT_ISSUER")}`;
  const provider = new Provider(issuer, {
    clients: [{
      client_id: "pages", token_endpoint_auth_method: "none", redirect_uris: [`${saleOrigin}/signed-in`],
      grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
    }],
    clientBasedCORS: (_, origin) => origin === saleOrigin,
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    cookies: { keys: ["a key of this test"] },
    ttl: { IdToken: 20, Session: 3_600, Interaction: 600, Grant: 3_600, RefreshToken: 3_600, AccessToken: 600 },
  });
  const server = provider.listen(Number(variable("PORT_ISSUER")), "127.0.0.1");
  await once(server, "listening");
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  return { issuer, provider, stop };
}
