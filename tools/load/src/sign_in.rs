//! The buyers' tokens: those of the shop's issuer, or signed with a key that the app trusts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use jsonwebtoken::{
    Algorithm, EncodingKey, Header, dangerous,
    jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash},
};
use serde_json::{Value, json};
use time::OffsetDateTime;

/// Lifetime of a token, in seconds: longer than any simulated sale.
const TOKEN_LIFETIME_SECONDS: i64 = 6 * 3600;

/// Flags about the buyers' tokens.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct SignInOptions {
    /// The buyers' tokens, from the shop's issuer: a JWT of another user on each line
    #[arg(long, value_name = "FILE", conflicts_with = "sign_with")]
    pub tokens: Option<PathBuf>,

    /// Sign the buyers' tokens with the key of --signing-key. For staging only: who has the key is every buyer
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    pub sign_with: Option<SigningAlgorithm>,

    /// The private key of --sign-with, as PEM (PKCS#8); openssl makes it if the file does not exist
    #[arg(long, value_name = "FILE", default_value = ".stampede/signing-key.pem")]
    pub signing_key: PathBuf,

    /// Where to write the public key of --sign-with, as a JWKS for the issuer's address (jwt_jwks_url)
    #[arg(long, value_name = "FILE", default_value = ".stampede/jwks.json")]
    pub jwks: PathBuf,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SigningAlgorithm {
    Rs256,
    Es256,
    Eddsa,
}

/// Where the buyers' tokens come from.
#[derive(Clone)]
pub enum BuyerTokens {
    /// One of each buyer.
    Given(Vec<String>),
    /// Signed here.
    Signed(Box<JwtSettings>),
}

/// Parameters of the tokens that are signed here.
#[derive(Clone)]
pub struct JwtSettings {
    header: Header,
    key: EncodingKey,
    issuer: String,
    audience: String,
}

impl BuyerTokens {
    /// Whether they are signed with a key of the env file, which may be another app's.
    pub fn is_shared_key(&self) -> bool {
        matches!(self, Self::Signed(settings) if settings.header.alg == Algorithm::HS256)
    }
}

impl SignInOptions {
    /// Reads the tokens or the key that the flags name; `None` without these flags. Writes the JWKS of a key.
    pub fn tokens(&self, issuer: &str, audience: &str) -> Result<Option<BuyerTokens>> {
        if let Some(file) = &self.tokens {
            return read_tokens(file).map(|tokens| Some(BuyerTokens::Given(tokens)));
        }
        let Some(algorithm) = self.sign_with else { return Ok(None) };
        if !self.signing_key.exists() {
            algorithm.make_key(&self.signing_key)?;
        }
        let (settings, jwks) = algorithm.load_key(&self.signing_key, issuer, audience)?;
        fs::write(&self.jwks, jwks.to_string()).with_context(|| format!("cannot write {}", self.jwks.display()))?;
        eprintln!(
            "Buyers' tokens are signed with {}, for staging only: who has that file is every buyer. The app trusts it with \
             jwt_algorithm = {}, jwt_issuer = {issuer}, and jwt_jwks_url where {} is served.",
            self.signing_key.display(),
            algorithm.name(),
            self.jwks.display()
        );
        Ok(Some(BuyerTokens::Signed(Box::new(settings))))
    }
}

fn read_tokens(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (mut tokens, mut users) = (Vec::new(), BTreeSet::new());
    for (index, token) in text.lines().map(str::trim).enumerate().filter(|(_, token)| !token.is_empty()) {
        let place = || format!("{}, line {}", file.display(), index + 1);
        let decoded = dangerous::insecure_decode::<Value>(token).with_context(place)?;
        let user = decoded.claims["sub"].as_str().with_context(|| format!("{}: no sub", place()))?;
        // The limit of a user would be taken for a violation.
        ensure!(users.insert(user.to_owned()), "{}: a second token of one user", place());
        tokens.push(token.to_owned());
    }
    ensure!(!tokens.is_empty(), "{} has no tokens", file.display());
    Ok(tokens)
}

impl SigningAlgorithm {
    /// The value of `jwt_algorithm`.
    fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Eddsa => "EdDSA",
        }
    }

    fn make_key(self, file: &Path) -> Result<()> {
        let parameters: &[&str] = match self {
            Self::Rs256 => &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            Self::Es256 => &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Self::Eddsa => &["ED25519"],
        };
        let mut command = Command::new("openssl");
        command.args(["genpkey", "-out"]).arg(file).arg("-algorithm").args(parameters);
        let output = command.output().context("openssl is missing")?;
        ensure!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Loads a private key. Returns how to sign with it, and its public part as a JWKS.
    fn load_key(self, file: &Path, issuer: &str, audience: &str) -> Result<(JwtSettings, Value)> {
        let pem = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let (algorithm, key) = match self {
            Self::Rs256 => (Algorithm::RS256, EncodingKey::from_rsa_pem(&pem)),
            Self::Es256 => (Algorithm::ES256, EncodingKey::from_ec_pem(&pem)),
            Self::Eddsa => (Algorithm::EdDSA, EncodingKey::from_ed_pem(&pem)),
        };
        let wrong = || format!("{} has no private key for {}", file.display(), self.name());
        let key = key.with_context(wrong)?;
        let mut jwk = Jwk::from_encoding_key(&key, algorithm).with_context(wrong)?;
        let id = jwk.thumbprint(ThumbprintHash::SHA256)?;
        (jwk.common.key_id, jwk.common.public_key_use) = (Some(id.clone()), Some(PublicKeyUse::Signature));
        let header = Header { kid: Some(id), ..Header::new(algorithm) };
        let settings = JwtSettings { header, key, issuer: issuer.to_owned(), audience: audience.to_owned() };
        Ok((settings, json!(JwkSet { keys: vec![jwk] })))
    }
}

impl JwtSettings {
    /// Tokens signed with the key that the app has, too (HS256).
    pub fn shared_key(key: &str, issuer: String, audience: String) -> Self {
        Self { header: Header::default(), key: EncodingKey::from_secret(key.as_bytes()), issuer, audience }
    }

    /// Signs a token for `user`, without a request to the app.
    pub fn sign(&self, user: &str) -> Result<String> {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let claims = json!({"sub": user, "iat": now, "exp": now + TOKEN_LIFETIME_SECONDS, "iss": self.issuer,
                            "aud": self.audience});
        Ok(jsonwebtoken::encode(&self.header, &claims, &self.key)?)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation};
    use tempfile::TempDir;

    use super::*;

    const ISSUER: &str = "https://shop.example";

    fn claims(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Value {
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&["stampede"]);
        validation.set_issuer(&[ISSUER]);
        jsonwebtoken::decode(token, key, &validation).unwrap().claims
    }

    #[test]
    fn a_signed_token_carries_user_issuer_audience_and_a_valid_signature() {
        let key = "a key that is long enough for HS256";
        let token = JwtSettings::shared_key(key, ISSUER.to_owned(), "stampede".to_owned()).sign("ada").unwrap();
        let claims = claims(&token, &DecodingKey::from_secret(key.as_bytes()), Algorithm::HS256);
        assert_eq!(claims["sub"], "ada");
        assert!(claims["exp"].as_i64() > Some(OffsetDateTime::now_utc().unix_timestamp() + 3600));
    }

    #[test]
    fn a_key_is_made_once_and_its_jwks_verifies_the_tokens() {
        for algorithm in [SigningAlgorithm::Rs256, SigningAlgorithm::Es256, SigningAlgorithm::Eddsa] {
            let directory = TempDir::new().unwrap();
            let options = SignInOptions {
                tokens: None,
                sign_with: Some(algorithm),
                signing_key: directory.path().join("key.pem"),
                jwks: directory.path().join("jwks.json"),
            };
            let sign = || match options.tokens(ISSUER, "stampede").unwrap() {
                Some(BuyerTokens::Signed(settings)) => settings.sign("ada").unwrap(),
                _ => panic!("no key"),
            };
            let tokens = [sign(), sign()];
            let text = fs::read_to_string(&options.jwks).unwrap();
            let keys: JwkSet = serde_json::from_str(&text).unwrap();
            for token in tokens {
                let header = jsonwebtoken::decode_header(&token).unwrap();
                let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
                let key = DecodingKey::from_jwk(key).unwrap();
                assert_eq!(claims(&token, &key, header.alg)["sub"], "ada", "{algorithm:?}");
            }
            assert!(!text.contains("\"d\""), "a private key: {text}");
        }
    }

    #[test]
    fn a_file_of_tokens_has_one_of_each_user() {
        let directory = TempDir::new().unwrap();
        let (file, settings) = (
            directory.path().join("tokens"),
            JwtSettings::shared_key("a key of the shop", ISSUER.to_owned(), "stampede".to_owned()),
        );
        let [ada, bob] = ["ada", "bob"].map(|user| settings.sign(user).unwrap());
        let read = |text: String| {
            fs::write(&file, text).unwrap();
            read_tokens(&file)
        };
        assert_eq!(read(format!("{ada}\n\n{bob}\n")).unwrap(), [ada.clone(), bob]);
        for (text, wrong) in [
            (String::new(), "no tokens"),
            (format!("{ada}\nbob\n"), "line 2"),
            (format!("{ada}\n{ada}\n"), "line 2: a second token"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(wrong), "{error}");
        }
    }
}
