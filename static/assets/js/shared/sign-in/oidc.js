// Sign-in by OpenID Connect: authorization code with PKCE. The ID token is the token of the API.

import * as session from "../session.js";
import { device, tab } from "../storage.js";

const ATTEMPT = "stampede.sign-in";

/** Seconds that the browser's clock may be wrong. The server, whose clock is right, decides about the token. */
const CLOCK_TOLERANCE = 7_200;

const library = () => import("../../../vendor/oauth4webapi/oauth4webapi.js");

/** The page that the provider sends visitors back to. It must be registered there. */
const redirectUri = () => `${location.origin}/signed-in`;

/** The way to sign in with these settings. */
export function openIdConnect({ issuer, client_id: clientId, scope }) {
  let discovery = null;

  /** Loads the library and the provider's metadata. */
  function discover() {
    discovery ??= discoverOnce().catch((error) => {
      discovery = null;
      throw error;
    });
    return discovery;
  }

  async function discoverOnce() {
    const oauth = await library();
    const url = new URL(issuer);
    // Plain HTTP is configured for a provider on the developer's machine only.
    const options = { [oauth.allowInsecureRequests]: url.protocol === "http:" };
    const response = await oauth.discoveryRequest(url, { algorithm: "oidc", ...options });
    const provider = await oauth.processDiscoveryResponse(url, response);
    return { oauth, options, provider, client: { client_id: clientId, [oauth.clockTolerance]: CLOCK_TOLERANCE } };
  }

  async function signIn() {
    const { oauth, provider } = await discover();
    const attempt = {
      verifier: oauth.generateRandomCodeVerifier(),
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
      return_to: location.pathname + location.search,
    };
    tab.setItem(ATTEMPT, JSON.stringify(attempt));
    const page = new URL(provider.authorization_endpoint);
    const parameters = {
      client_id: clientId, redirect_uri: redirectUri(), response_type: "code", scope,
      state: attempt.state, nonce: attempt.nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(attempt.verifier), code_challenge_method: "S256",
      ui_locales: document.documentElement.lang,
    };
    // The provider's session goes on after a sign-out here: it must ask who comes next.
    const canAsk = provider.prompt_values_supported?.includes("login") ?? true;
    if (session.hasSignedOut() && canAsk) parameters.prompt = "login";
    for (const [name, value] of Object.entries(parameters)) page.searchParams.set(name, value);
    location.assign(page.href);
    return new Promise(() => {});
  }

  /** Exchanges the code in this page's address for a token. Resolves to the path to return to. */
  async function finish() {
    const attempt = JSON.parse(tab.getItem(ATTEMPT) ?? "null");
    tab.removeItem(ATTEMPT);
    if (!attempt) throw new Error("this tab has not begun to sign in");
    const { oauth, options, provider, client } = await discover();
    let parameters;
    try {
      parameters = oauth.validateAuthResponse(provider, client, new URL(location.href), attempt.state);
    } catch (error) {
      // A provider may not know the prompt: the next sign-in is without it.
      if (error.error === "invalid_request") session.forgetSignOut();
      throw error;
    }
    const response = await oauth.authorizationCodeGrantRequest(
      provider, client, oauth.None(), parameters, redirectUri(), attempt.verifier, options,
    );
    const expected = { expectedNonce: attempt.nonce, requireIdToken: true };
    const tokens = await oauth.processAuthorizationCodeResponse(provider, client, response, expected);
    session.storeToken(tokens.id_token);
    storeRefreshToken(tokens.refresh_token);
    return localPath(attempt.return_to);
  }

  async function renew() {
    const refreshToken = device.getItem(session.REFRESH_TOKEN);
    if (!refreshToken) return undefined;
    const { oauth, options, provider, client } = await discover();
    const response = await oauth.refreshTokenGrantRequest(provider, client, oauth.None(), refreshToken, options);
    try {
      const tokens = await oauth.processRefreshTokenResponse(provider, client, response);
      if (tokens.refresh_token && device.getItem(session.REFRESH_TOKEN) === refreshToken) storeRefreshToken(tokens.refresh_token);
      return tokens.id_token;
    } catch (error) {
      if (error.error !== "invalid_grant") throw error;
      // The provider's session is over. The token is good until it ends.
      device.removeItem(session.REFRESH_TOKEN);
      return undefined;
    }
  }

  return { opensDialog: false, canSignOut: true, renew, signIn, finish };
}

function storeRefreshToken(token) {
  if (token) device.setItem(session.REFRESH_TOKEN, token);
  else device.removeItem(session.REFRESH_TOKEN);
}

/** A path on this origin: what was stored, if it is one. */
function localPath(path) {
  const url = new URL(path, location.origin);
  return url.origin === location.origin && url.pathname !== "/signed-in" ? url.pathname + url.search : "/";
}
