// An OpenID provider on loopback, with TLS: provider.mjs CERTIFICATE KEY. Prints its address.
//
// Its clients get tokens about themselves (RFC 6749, section 4.4) for the resource that they name, signed with the
// algorithm at the end of that name. It makes its own signing keys at its start.

import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

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

const server = createServer({ cert, key });
server.listen(0, "127.0.0.1", () => {
  const issuer = `https://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: ["agent-of-acme", "agent-of-acme-evil"].map(client),
    features: {
      devInteractions: { enabled: false },
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
