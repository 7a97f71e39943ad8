// Writes the minified clients: a file for each entry, and one for each part that loads later, each also compressed with Brotli.
// `cargo xtask bundles` runs it.
// Usage: node bundle.mjs NODE_MODULES DIRECTORY
// SPDX-License-Identifier: Apache-2.0
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';

const [modules, outdir] = process.argv.slice(2).map((path) => resolve(path));
const { build, transform } = createRequire(`${modules}/`)('esbuild');
const here = dirname(fileURLToPath(import.meta.url));

/** Parts that load later. They import each other by these names, so all files are in one folder. */
const LATER = {
  hidden: 'inbox',
  locales: 'inbox',
  panel: 'inbox',
  preferences: 'client',
  push: 'client',
  settings: 'inbox',
};

/** Minifies the style sheets, which are strings for the minifier. */
const styles = {
  name: 'styles',
  setup({ onLoad }) {
    onLoad({ filter: /inbox\/[a-z-]+\.js$/ }, async ({ path }) => {
      const source = await readFile(path, 'utf8');
      const [, css] = source.match(/ css = `([^`]*)`/) ?? [];
      if (css === undefined) return undefined;
      const { code } = await transform(css, { loader: 'css', minify: true });
      return { contents: source.replace(`\`${css}\``, () => JSON.stringify(code.trim())) };
    });
  },
};

/** What the bell has loaded already. The parts import it from there. */
const SHARED = /\/(dom|box)\.js$/;
const shared = {
  name: 'shared',
  setup({ onResolve }) {
    onResolve({ filter: SHARED }, () => ({ path: './inbox.js', external: true }));
  },
};
const bell = `
  export * from './inbox/index.js';
  export * from './inbox/dom.js';
  export { place } from './client/box.js';
`;

const options = {
  absWorkingDir: here,
  outdir,
  bundle: true,
  minify: true,
  format: 'esm',
  external: Object.keys(LATER).map((name) => `./${name}.js`),
  banner: { js: '// SPDX-License-Identifier: Apache-2.0' },
  logLevel: 'warning',
};
const stdin = { contents: bell, sourcefile: 'bell.js', resolveDir: here };
await build({ ...options, outdir: undefined, outfile: `${outdir}/inbox.js`, stdin, plugins: [styles] });
await build({ ...options, entryPoints: { client: 'client/index.js' } });
const entries = Object.entries(LATER).map(([name, folder]) => [name, `${folder}/${name}.js`]);
await build({ ...options, entryPoints: Object.fromEntries(entries), plugins: [styles, shared] });

for (const name of await readdir(outdir)) {
  if (!name.endsWith('.js')) continue;
  await writeFile(`${outdir}/${name}.br`, brotliCompressSync(await readFile(`${outdir}/${name}`)));
}
