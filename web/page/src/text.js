'use strict';

// The files of the script are read in the order in which page.go joins them.
// Data becomes text nodes and attributes, never markup: a key may be any bytes.
// Memory is bounded: five minutes of points, and of each key and policy that is shown.

const $ = id => document.getElementById(id);
const KEPT = 300_000;   // ms for which points, and the counts of a key, are kept
const RECENT = 10_000;  // ms over which the share that is turned away of a key is computed
const MOMENT = 10_000;  // ms between two counts of a key that the server keeps
const GAP = 3_500;      // ms between two points above which the line is broken
const SILENCE = 6_000;  // ms without a snapshot after which the connection counts as lost
const HOLD = 8_000;     // ms after the last input for which a table under the pointer keeps its order

// ---- Text. A non-breaking space separates a number from its unit.

const plain = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
const NONE = ['–', ''];

function count(n) {
  if (n >= 1e6) return compact.format(n);
  return n > 0 && n < 10 && n % 1 ? n.toFixed(1) : plain.format(n);
}

// brief formats a number for a narrow column.
const brief = n => n < 10_000 ? plain.format(n) : compact.format(n);

// perSecond, share, delay and bytes return a number and its unit.
const perSecond = n => n == null ? NONE : [count(n), '/s'];

function share(x) {
  if (x == null) return NONE;
  if (x === 0 || x === 1) return [String(x * 100), '%'];
  if (x < 0.001) return ['<0.1', '%'];
  return [Math.min(x * 100, 99.9).toFixed(1), '%'];
}

function delay(us) {
  if (us == null) return NONE;
  if (us < 1000) return [String(Math.round(us)), 'µs'];
  if (us < 999_500) return [(us / 1000).toFixed(us < 10_000 ? 2 : us < 100_000 ? 1 : 0), 'ms'];
  return [(us / 1e6).toFixed(1), 's'];
}

function bytes(n) {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let u = 0;
  for (; n >= 1024 && u < units.length - 1; u++) n /= 1024;
  return [u === 0 || n >= 100 ? plain.format(n) : n.toFixed(1), units[u]];
}

const joined = figure => figure.join(figure[1] ? '\u00a0' : '');

// span formats a duration, rounded by at most a tenth.
function span(ms) {
  if (ms < 1000) return Math.max(0, Math.round(ms)) + '\u00a0ms';
  if (ms < 10_000 && ms % 1000) return (ms / 1000).toFixed(1) + '\u00a0s';
  const parts = [];
  let s = Math.round(ms / 1000);
  for (const [size, unit] of [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]) {
    const n = Math.floor(s / size);
    if (n > 0) parts.push(n + '\u00a0' + unit);
    else if (parts.length) break;
    if (parts.length === 2 || n >= 10) break;
    s %= size;
  }
  return parts.join(' ');
}

// clock formats a time of day, with the date before it unless that is today.
function clock(ms) {
  const t = new Date(ms);
  const two = n => String(n).padStart(2, '0');
  const time = [t.getHours(), t.getMinutes(), t.getSeconds()].map(two).join(':');
  return t.toDateString() === new Date().toDateString() ? time : `${two(t.getMonth() + 1)}-${two(t.getDate())} ${time}`;
}

// visible escapes characters that are invisible or reorder text.
const visible = text => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu,
  c => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));

const named = command => command.toUpperCase();
