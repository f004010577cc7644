
// ---- The figures: each has a number and a line of five minutes. A pointer or the arrow keys show an earlier second.

const away = p => p.decisions ? (p.denied + p.refused) / p.decisions : null;
const part = (n, p) => p.decisions ? n / p.decisions : null;

// What is turned away is stacked: denied below, refused above.
const figures = [
  {
    title: 'Decisions', of: p => p.decisions, as: perSecond, denied: p => p.denied, refused: p => p.denied + p.refused,
    more: p => [p.drawn > 0 && `from advances ${joined(perSecond(p.drawn))}`, p.shadow > 0 && `SHADOW would deny ${joined(perSecond(p.shadow))}`],
  },
  {
    title: 'Turned away', of: away, as: share, tone: 'denied', denied: p => part(p.denied, p), refused: away, most: 1,
    more: p => [p.denied > 0 && `by limit ${joined(share(part(p.denied, p)))}`, p.refused > 0 && `no answer ${joined(share(part(p.refused, p)))}`],
  },
  { title: 'No node answered', of: p => p.fail, as: perSecond, tone: 'trouble', more: p => [p.through > 0 && `let through ${joined(perSecond(p.through))}`] },
  { title: 'Half within', of: p => p.p50_us, as: delay },
  { title: '99 % within', of: p => p.p99_us, as: delay },
];
let reading = null;  // the time that is shown; null: the newest

function newFigure(f) {
  for (const name of ['area', 'refusals', 'denials']) f[name] = drawing('path', { class: name });
  f.line = drawing('path', {});
  f.at = make('i', 'at');
  f.cross = make('i', 'cross');
  f.at.hidden = f.cross.hidden = true;
  f.now = make('div', 'now');
  f.note = make('div', 'note');
  f.parts = make('div', 'note');
  const svg = drawing('svg', { viewBox: '0 0 300 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, f.area, f.refusals, f.denials, f.line);
  const legend = f === figures[0] ? make('span', 'legend', make('span', 'denied', 'by limit'), make('span', 'trouble', 'no answer')) : '';
  putFigure(f.now, NONE);
  $('now').append(make('figure', '', make('figcaption', '', make('span', '', f.title), legend), f.now, f.note, f.parts, make('div', 'chart', svg, f.cross, f.at)));
}

figures.forEach(newFigure);

// runs returns the points in which of is known, in runs without missing seconds.
function runs(points, of, gap = GAP) {
  const all = [];
  let last = null;
  for (const p of points) {
    if (of(p) == null) last = null;
    else {
      if (last == null || p.t - last > gap) all.push([]);
      all.at(-1).push(p);
      last = p.t;
    }
  }
  return all;
}

// line returns the path of a line through runs. A single point is a dot.
const line = (all, of, x, y) => all.map(run => 'M' + trace(run, of, x, y) + (run.length === 1 ? 'h.01' : '')).join('');

// band returns the path of the areas under runs.
const band = (all, of, x, y, floor) => all.map(run => `M${trace(run, of, x, y)}V${floor}H${tenth(x(run[0].t))}Z`).join('');

const trace = (run, of, x, y) => run.map(p => `${tenth(x(p.t))},${tenth(y(of(p)))}`).join('L');
const tenth = n => Math.round(n * 10) / 10;

function showFigures() {
  if (!points.length) return;
  const newest = points.at(-1);
  const p = reading == null ? newest : points.reduce((a, b) => Math.abs(b.t - reading) < Math.abs(a.t - reading) ? b : a);
  for (const f of figures) showFigure(f, p, newest);
  return p;
}

function showFigure(f, p, newest) {
  let most = 0;
  for (const q of points) most = Math.max(most, f.of(q) ?? 0);
  const x = t => (t - newest.t + KEPT) / KEPT * 300;
  const y = v => 94 - (most ? v / (f.most ?? most) : 0) * 90;
  const all = runs(points, f.of);
  f.line.setAttribute('d', line(all, f.of, x, y));
  f.area.setAttribute('d', band(all, f.of, x, y, 100));
  if (f.denied) {
    f.refusals.setAttribute('d', points.some(q => q.refused > 0) ? band(all, f.refused, x, y, 94) : '');
    f.denials.setAttribute('d', most ? band(all, f.denied, x, y, 94) : '');
  }
  f.line.setAttribute('class', f.tone === 'trouble' && most > 0 ? 'trouble' : '');
  const v = f.of(p);
  f.now.className = 'now ' + (v > 0 && (f.denied && f.tone && p.refused > p.denied ? 'trouble' : f.tone) || '');
  putFigure(f.now, f.as(v));
  put(f.note, reading == null ? (most ? `most in 5 min ${joined(f.as(most))}` : 'none in 5 min') : p === newest ? 'now' : `${span(newest.t - p.t)} ago`);
  put(f.parts, f.more?.(p).filter(Boolean).join(', ') || '\u00a0');
  f.parts.title = f.parts.textContent;
  f.at.hidden = v == null;
  f.cross.hidden = reading == null;
  f.cross.style.left = f.at.style.left = x(p.t) / 3 + '%';
  f.at.style.top = y(v ?? 0) + '%';
}

function read(t) {
  reading = t;
  return showFigures();
}

$('now').addEventListener('pointermove', e => {
  const chart = e.target.closest('figure')?.querySelector('.chart').getBoundingClientRect();
  if (chart && points.length) read(points.at(-1).t - KEPT * (1 - (e.clientX - chart.left) / chart.width));
});
$('now').addEventListener('pointerleave', () => read(null));
$('now').addEventListener('blur', () => read(null));
$('now').addEventListener('keydown', e => {
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[e.key];
  if (e.key === 'Escape' || e.key === 'End') read(null);
  else if (!points.length || !steps && e.key !== 'Home') return;
  else {
    const at = reading == null ? points.length - 1 : points.findIndex(p => p.t >= reading);
    const to = e.key === 'Home' ? 0 : Math.max(0, Math.min(points.length - 1, at + steps));
    const p = read(points[to].t);
    put($('read'), `${figures[0].note.textContent}: ` + figures.map(f => `${f.title} ${joined(f.as(f.of(p)))}`).join(', '));
  }
  e.preventDefault();
});
