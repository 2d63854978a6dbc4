// Sign-in by OpenID Connect: authorization code with PKCE. The ID token is the token of the API.

import { backoff } from "../poll.js";
import * as session from "../session.js";
import { device, isKept, tab } from "../storage.js";
import { timeLimit } from "./requests.js";

/** The attempt of this tab. Of one that has ended, only the way back is kept. */
const ATTEMPT = "stampede.sign-in";

/** How many times the code is sent while the provider does not answer. */
const MAX_EXCHANGES = 3;

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
    const options = { [oauth.allowInsecureRequests]: url.protocol === "http:", signal: timeLimit };
    const provider = await oauth.discoveryRequest(url, { algorithm: "oidc", ...options })
      .then((response) => oauth.processDiscoveryResponse(url, response))
      .catch((cause) => {
        console.info(`sign-in: the provider's metadata cannot be read: is oidc_issuer right? ${issuer}`, cause);
        throw new SignInError("provider");
      });
    return { oauth, options, provider, client: { client_id: clientId, [oauth.clockTolerance]: CLOCK_TOLERANCE } };
  }

  async function signIn({ returnTo = wayBack(), isAgain = false } = {}) {
    if (!isKept(tab)) throw new SignInError("storage");
    const { oauth, provider } = await discover();
    const attempt = {
      verifier: oauth.generateRandomCodeVerifier(),
      state: oauth.generateRandomState(),
      nonce: oauth.generateRandomNonce(),
      return_to: returnTo,
      is_again: isAgain,
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

  /**
   * Exchanges the code in this page's address for a token. Resolves to the path to return to. The attempt is kept until
   * the provider has answered, so that a reload goes on with it; a reload after that goes on to the sale.
   */
  async function finish() {
    const attempt = JSON.parse(tab.getItem(ATTEMPT) ?? "null");
    if (!attempt?.state) {
      if (session.token()) return localPath(attempt?.return_to ?? "/");
      throw isKept(tab) ? new Error("this tab has not begun to sign in") : new SignInError("storage");
    }
    const end = () => tab.setItem(ATTEMPT, JSON.stringify({ return_to: attempt.return_to }));
    const { oauth, options, provider, client } = await discover();
    let parameters;
    try {
      parameters = oauth.validateAuthResponse(provider, client, new URL(location.href), attempt.state);
    } catch (error) {
      end();
      // A provider may not know the prompt: the next sign-in is without it.
      if (error.error === "invalid_request") session.forgetSignOut();
      throw error;
    }
    const send = () => oauth.authorizationCodeGrantRequest(
      provider, client, oauth.None(), parameters, redirectUri(), attempt.verifier, options,
    );
    const response = await untilAnswered(send);
    end();
    const expected = { expectedNonce: attempt.nonce, requireIdToken: true };
    let tokens;
    try {
      tokens = await oauth.processAuthorizationCodeResponse(provider, client, response, expected);
    } catch (error) {
      // The code is too old, or an answer that was lost has used it.
      if (error.error !== "invalid_grant" || attempt.is_again) throw error;
      return signIn({ returnTo: attempt.return_to, isAgain: true });
    }
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

/** Why nobody can sign in, for the text `sign_in.no_<reason>`. */
export class SignInError extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

/** Resolves to the provider's answer; sends again only if there was none. */
async function untilAnswered(send) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send();
    } catch (error) {
      if (tries === MAX_EXCHANGES) throw Object.assign(new SignInError("answer"), { cause: error });
      await new Promise((resolve) => setTimeout(resolve, backoff(tries)));
    }
  }
}

function storeRefreshToken(token) {
  if (token) device.setItem(session.REFRESH_TOKEN, token);
  else device.removeItem(session.REFRESH_TOKEN);
}

/** The page to come back to: this one, or on the page of the provider's answers the one where the attempt began. */
function wayBack() {
  const attempt = JSON.parse(tab.getItem(ATTEMPT) ?? "null");
  return location.pathname === "/signed-in" ? (attempt?.return_to ?? "/") : location.pathname + location.search;
}

/** A path on this origin: what was stored, if it is one. */
function localPath(path) {
  const url = new URL(path, location.origin);
  return url.origin === location.origin && url.pathname !== "/signed-in" ? url.pathname + url.search : "/";
}
