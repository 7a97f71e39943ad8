// An OpenID provider for the test of the console: node oidc-provider.mjs NODE_MODULES PORT REDIRECT_URI
// Everyone signs in with a name and any password. The name decides on the email address and the groups.
// The test reads one line only, and writing to a closed pipe ends the process.
console.info = console.error;
const [modules, port, redirectUri] = process.argv.slice(2);
const { default: Provider } = await import(`${modules}/oidc-provider/lib/index.js`);
const groups = { ada: ['ops', 'staff'] };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'tidings console', client_secret: 'a+b/c% d', redirect_uris: [redirectUri] }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  cookies: { keys: ['for tests'] },
  findAccount: (_, name) => ({
    accountId: name,
    claims: () => ({
      sub: name, email: `${name}@example.com`, email_verified: name !== 'eve', groups: groups[name] ?? [],
    }),
  }),
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
