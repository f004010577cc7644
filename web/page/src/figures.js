// ---- The figures: each has a number and a line of five minutes. A pointer or the arrow keys show an earlier second.

const figures = [
  { title: 'Decisions', of: p => p.decisions, as: perSecond, part: p => p.decisions * (p.denied ?? 0), more: p => p.drawn > 0 ? `, from advances ${joined(perSecond(p.drawn))}` : '' },
  { title: 'Denied', of: p => p.denied, as: share, tone: 'denied', more: p => p.shadow > 0 ? `, SHADOW would deny ${joined(perSecond(p.shadow))}` : '' },
  { title: 'Answers by FAIL policy', of: p => p.fail, as: perSecond, tone: 'trouble' },
  { title: 'p50 time', of: p => p.p50_us, as: delay },
  { title: 'p99 time', of: p => p.p99_us, as: delay },
];
let reading = null;  // the time that is shown; null: the newest

for (const f of figures) {
  f.area = drawing('path', { class: 'area' });
  f.sub = drawing('path', { class: 'share' });
  f.line = drawing('path', {});
  f.at = make('i', 'at');
  f.cross = make('i', 'cross');
  f.at.hidden = f.cross.hidden = true;
  f.now = make('div', 'now');
  f.note = make('div', 'note');
  const svg = drawing('svg', { viewBox: '0 0 300 100', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, f.area, f.sub, f.line);
  const figure = make('figure', '', make('figcaption', '', make('span', '', f.title), f.part ? make('span', 'legend', 'denied') : ''), f.now, f.note, make('div', 'chart', svg, f.cross, f.at));
  putFigure(f.now, NONE);
  $('now').append(figure);
}

// paths returns the paths of of(p) over the points: a line, broken where seconds are missing,
// and the area between it and the floor.
function paths(points, of, x, y, floor) {
  let line = '', area = '', from = 0, start = 0, last = null;
  const close = () => {
    if (last) area += `${line.slice(from)}V${floor}H${start}Z`;
    last = null;
  };
  for (const p of points) {
    const v = of(p);
    if (v == null || last && p.t - last.t > GAP) close();
    if (v == null) continue;
    const at = tenth(x(p.t));
    if (last) line += `L${at},${tenth(y(v))}`;
    else {
      [from, start] = [line.length, at];
      line += `M${at},${tenth(y(v))}h.01`; // a dot, if no line follows
    }
    last = p;
  }
  close();
  return [line, area];
}

const tenth = n => Math.round(n * 10) / 10;

function showFigures() {
  if (!points.length) return;
  const newest = points.at(-1);
  const from = newest.t - KEPT;
  const p = reading == null ? newest : points.reduce((a, b) => Math.abs(b.t - reading) < Math.abs(a.t - reading) ? b : a);
  for (const f of figures) {
    let most = 0;
    for (const q of points) most = Math.max(most, f.of(q) ?? 0);
    const x = t => (t - from) / KEPT * 300;
    const y = v => 94 - (most ? v / most : 0) * 90;
    const [line, area] = paths(points, f.of, x, y, 100);
    f.line.setAttribute('d', line);
    f.area.setAttribute('d', area);
    if (f.part) f.sub.setAttribute('d', paths(points, f.part, x, y, 100)[1]);
    const tone = f.tone && most > 0 ? f.tone : '';
    f.line.setAttribute('class', tone);
    const v = f.of(p);
    f.now.className = 'now ' + (v > 0 && f.tone || '');
    putFigure(f.now, f.as(v));
    const when = reading == null ? (most ? `most in 5 min ${joined(f.as(most))}` : 'none in 5 min') : p === newest ? 'now' : `${span(newest.t - p.t)} ago`;
    put(f.note, when + (f.more?.(p) ?? ''));
    f.at.hidden = v == null;
    f.cross.hidden = reading == null;
    f.cross.style.left = f.at.style.left = x(p.t) / 3 + '%';
    f.at.style.top = y(v ?? 0) + '%';
  }
  return p;
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
