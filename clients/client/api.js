// Calls of the HTTP API.
// SPDX-License-Identifier: Apache-2.0
/** @import { Abortable, Call, CreateApi, IsFinal } from './types.js' */

/** Milliseconds after which a call fails. */
const LIMIT = 20_000;
/** Returns true if a retry cannot help. @type {IsFinal} */
export const isFinal = ({ status = 0 }) => status >= 400 && status < 500 && ![408, 425, 429].includes(status);

/** Parses seconds, at most 300. @param {unknown} value */
export const toSeconds = (value) => Math.min(Number(value) || 0, 300);

/** Rejects when the signal aborts. @type {Abortable} */
export const abortable = (signal, promise) =>
  Promise.race([promise, new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))]);

/** @type {CreateApi} */
export const createApi = ({ url, apiKey, user, getToken, headerPrefix = 'X-SERVICE' }) => {
  const prefix = headerPrefix.replace(/-*$/, '-');
  /** @type {Promise<string> | undefined} */
  let token;
  /** @type {Call} */
  const call = async (
    path,
    { method = 'GET', body, headers, device = {}, signal = AbortSignal.timeout(LIMIT) } = {},
  ) => {
    for (let retried = false; ; retried = true) {
      const used = getToken && (token ??= abortable(AbortSignal.timeout(LIMIT), Promise.resolve().then(getToken)));
      used?.catch(call.renew);
      const all = { ...headers, [`${prefix}API-KEY`]: apiKey, [`${prefix}USER-ID`]: user };
      for (const name in device) all[`${prefix}DEVICE-${name}`] = device[name];
      if (used) {
        all.Authorization = `Bearer ${await used}`;
        // An error page is not a token.
        if (!retried && !/^[!-~]+ [!-~]+$/.test(all.Authorization)) {
          call.renew();
          continue;
        }
      }
      if (body) all['Content-Type'] = 'application/json';
      const response = await fetch(`${url.replace(/\/+$/, '')}/v3${path}`, {
        method,
        headers: all,
        signal,
        body: body ? JSON.stringify(body) : undefined,
        // A change arrives even if the page closes meanwhile.
        keepalive: method !== 'GET',
        credentials: 'omit',
        cache: 'no-store',
      });
      if (response.ok) return response;
      if (response.status === 401 && used && !retried) {
        if (token === used) call.renew();
        continue;
      }
      const { message = response.statusText, code } = await response.json().catch(() => ({}));
      const retryAfter = toSeconds(response.headers.get('Retry-After'));
      throw Object.assign(new Error(message), { status: response.status, code, retryAfter });
    }
  };
  call.renew = () => {
    token = undefined;
  };
  return call;
};
