// An OpenID provider on loopback, with TLS: provider.mjs CERTIFICATE KEY. Prints its address.
//
// Its clients get tokens about themselves (RFC 6749, section 4.4) for the resource that they name, signed with the
// algorithm at the end of that name. To the client `canyon` people sign in, whose name is their login, with any password.
// It makes its own signing keys at its start.

import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

// Its remarks belong into the log: after the address, no one reads the standard output.
console.info = console.error;
const { Provider } = await import(process.env.OIDC_PROVIDER_MODULE);
const [cert, key] = process.argv.slice(2).map((path) => readFileSync(path));

const pairs = {
  RS256: ["rsa", { modulusLength: 2048 }],
  ES256: ["ec", { namedCurve: "P-256" }],
  EdDSA: ["ed25519", {}],
};
// The keys go through PEM. In Node.js 20 a garbage collection during the export of a generated key waits without end
// for the lock that the export holds, because the finished job of the generation shares that lock.
const privateKeyEncoding = { type: "pkcs8", format: "pem" };
const keys = Object.entries(pairs).map(([alg, [kind, options]]) => ({
  ...createPrivateKey(generateKeyPairSync(kind, { ...options, privateKeyEncoding }).privateKey).export({ format: "jwk" }),
  alg,
  use: "sig",
}));
const client = (client_id) => ({
  client_id,
  client_secret: "for-tests-alone",
  grant_types: ["client_credentials"],
  response_types: [],
  redirect_uris: [],
});

// A program on people's machines, which can keep no secret.
const canyon = {
  client_id: "canyon",
  token_endpoint_auth_method: "none",
  application_type: "native",
  grant_types: [
    "authorization_code",
    "refresh_token",
    "urn:ietf:params:oauth:grant-type:device_code",
  ],
  redirect_uris: ["http://127.0.0.1/callback"],
};
const groups = { ada: ["platform", "everyone"], grace: ["auditors"], linus: ["shop"], eve: [] };
const findAccount = (_, accountId) => ({
  accountId,
  claims: () => ({
    sub: accountId,
    email: `${accountId}@example.com`,
    groups: groups[accountId] ?? [],
  }),
});

const server = createServer({ cert, key });
server.listen(0, "127.0.0.1", () => {
  const issuer = `https://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: [...["agent-of-acme", "agent-of-acme-evil"].map(client), canyon],
    claims: { openid: ["sub"], email: ["email"], groups: ["groups"] },
    // Claims of people are in the ID token, and not only where the access token reads them.
    conformIdTokenClaims: false,
    findAccount,
    // As most issuers do it: without asking the person each time.
    issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
    features: {
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          scope: "",
          audience: resource.replace(/\/[^/]*$/, ""),
          accessTokenTTL: 300,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: resource.split("/").pop() } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.on("end", () => process.exit()).resume();
