// Style of the content of the panel.
// SPDX-License-Identifier: Apache-2.0

export const css = `
button, .blocks a { min-width: 28px; min-height: 28px; border-radius: 8px; padding: 4px 8px; }
.bar { display: flex; align-items: center; gap: 2px; padding-block: 12px 6px; padding-inline: 20px 12px; }
.bar h2 { flex: 1; margin: 0; font-size: 17px; font-weight: 650; line-height: 32px; letter-spacing: -.01em; }
.back { margin-inline-start: -8px; }
.back:dir(rtl) { scale: -1 1; }
.icon { padding: 6px; color: var(--_muted); }
.icon:hover { color: var(--_text); background: var(--_hover); }
.tabs { display: flex; padding-inline: 20px 12px; border-bottom: 1px solid var(--_line); }
.tabs div { display: flex; gap: 20px; }
.tabs button { min-width: 0; min-height: 36px; padding: 0; border-radius: 2px; color: var(--_muted); font-weight: 500; box-shadow: inset 0 -2px #0000; }
.tabs button:hover { color: var(--_text); }
.tabs [aria-selected=true] { color: var(--_text); box-shadow: inset 0 -2px var(--_accent); }
.tabs .all-read { margin-inline-start: auto; padding-inline: 8px; font-size: 13px; color: var(--_accent); }
.scroll { position: relative; flex: 1; min-height: 0; overflow: auto; overscroll-behavior: contain; scrollbar-width: thin; scrollbar-color: var(--_line) #0000; }
ul { margin: 0; padding: 0; list-style: none; content-visibility: auto; contain-intrinsic-size: auto 1700px; }
li { position: relative; display: flex; gap: 12px; padding: 12px 20px; border-bottom: 1px solid var(--_line); }
li:hover, li:focus-within { background: var(--_hover); }
li[data-unread]::before { content: ''; position: absolute; inset-inline-start: 7px; inset-block-start: 19px; width: 7px; height: 7px; border-radius: 50%; background: var(--_accent); }
li img { width: 36px; height: 36px; margin-top: 2px; border-radius: 8px; object-fit: cover; }
.body { flex: 1; min-width: 0; }
a.open { display: block; color: inherit; text-decoration: none; border-radius: 4px; overflow-wrap: anywhere; }
a.open::after { content: ''; position: absolute; inset: 0; }
a.open:focus-visible { outline: none; }
a.open:focus-visible::after { outline: 2px solid var(--_accent); outline-offset: -3px; border-radius: 8px; }
.title { display: block; font-weight: 500; text-align: -webkit-match-parent; text-align: match-parent; }
li[data-unread] .title { font-weight: 650; }
.message { display: -webkit-box; -webkit-line-clamp: 3; -webkit-box-orient: vertical; overflow: hidden; margin-top: 1px; color: var(--_muted); font-size: 13.5px; white-space: pre-line; text-align: -webkit-match-parent; text-align: match-parent; }
.meta { margin-top: 4px; font-size: 12px; line-height: 16px; color: var(--_muted); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.acts { position: absolute; inset-block-start: 8px; inset-inline-end: 12px; display: flex; gap: 1px; padding: 1px; opacity: 0; background: var(--_bg); border: 1px solid var(--_line); border-radius: 9px; box-shadow: 0 1px 4px #0001; }
li:hover .acts, li:focus-within .acts, .acts:has([aria-expanded=true]) { opacity: 1; }
.acts svg { width: 17px; height: 17px; }
.hide path { stroke-width: 2.6; }
.blocks { position: relative; z-index: 1; display: flex; flex-wrap: wrap; align-items: center; gap: 8px; margin-top: 8px; width: fit-content; max-width: 100%; }
.blocks p { flex-basis: 100%; margin: 0; color: var(--_muted); font-size: 13.5px; }
.blocks :is(button, a) { box-sizing: border-box; max-width: 100%; overflow-wrap: anywhere; min-height: 32px; padding: 4px 12px; border: 1px solid var(--_line); background: var(--_bg); font-size: 13px; font-weight: 500; line-height: 22px; text-decoration: none; }
.blocks :is(button, a):hover { border-color: var(--_accent); }
.blocks [aria-pressed=true] { color: var(--_on-accent); background: var(--_accent); border-color: var(--_accent); }
.pill { position: absolute; z-index: 2; inset-block-start: 8px; inset-inline: 0; margin: auto; width: fit-content; padding: 4px 14px; border-radius: 16px; box-shadow: 0 3px 12px #0004; font-weight: 500; }
.pill, .solid { color: var(--_on-accent); background: var(--_accent); }
.list { position: relative; display: flex; flex-direction: column; flex: 1; min-height: 0; }
.state { padding: 88px 32px; text-align: center; color: var(--_muted); }
.state p { margin: 0 0 16px; }
.state svg { width: 40px; height: 40px; margin: 0 auto 12px; stroke-width: 1.2; }
.state button { padding-inline: 14px; min-height: 34px; text-align: center; font-weight: 500; }
.loading { padding: 0 20px; }
.loading p { height: 216px; margin: 0; font-size: 0; background: linear-gradient(#0000 16px, var(--_line) 16px 27px, #0000 27px) 0 0 / 55% 72px repeat-y, linear-gradient(#0000 37px, var(--_line) 37px 47px, #0000 47px) 0 0 / 90% 72px repeat-y; }
.loading:dir(rtl) { scale: -1 1; }
.line { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 6px; padding-block: 10px; padding-inline: 20px 12px; border-top: 1px solid var(--_line); font-size: 13px; color: var(--_muted); }
.line > span { flex: 1 1 55%; }
.line button { color: var(--_accent); font-weight: 500; }
.line .solid { padding-inline: 12px; color: var(--_on-accent); }
.undo { position: absolute; z-index: 3; inset-block-end: 12px; inset-inline: 12px; padding: 6px 8px 6px 14px; padding-inline: 14px 8px; border: 0; border-radius: 10px; color: var(--_bg); background: var(--_text); box-shadow: 0 4px 16px #0003; }
.undo button { color: inherit; text-decoration: underline; text-underline-offset: 3px; }
.undo :focus-visible { outline-color: var(--_bg); }
.more { height: 300px; margin-top: -300px; visibility: hidden; pointer-events: none; }
@media (hover: none) {
  li:has(.acts) { padding-inline-end: 60px; }
  .acts { inset-block-start: 4px; inset-inline-end: 8px; opacity: 1; background: none; border: 0; box-shadow: none; }
  .acts :is(.toggle, .remove) { display: none; }
  .acts .hide { min-width: 44px; min-height: 44px; padding: 13px; }
}
@media (prefers-reduced-motion: no-preference) {
  .panel:popover-open { animation: show .14s ease-out; }
  @keyframes show { from { opacity: 0; translate: 0 -6px; } }
  .loading p { animation: wait 1s infinite alternate; }
  @keyframes wait { to { opacity: .4; } }
}
@media (forced-colors: active) {
  .pill, .undo, li[data-unread]::before { border: 1px solid; }
}
`;
