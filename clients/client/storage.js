// Entries of localStorage.
// SPDX-License-Identifier: Apache-2.0
/** @import { Remember } from './types.js' */

/** @type {Remember} */
export const remember = (name, value) => {
  try {
    if (value) localStorage.setItem(name, value);
    if (value === '') localStorage.removeItem(name);
    return localStorage.getItem(name) ?? '';
  } catch {
    // Storage is blocked or full.
    return '';
  }
};
