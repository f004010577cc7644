
// ---- The busiest keys, of this proxy or of all.

let trails = new Map();         // the last minutes of each key that is shown, by id
const fleetTrails = new Map();  // the same of all proxies together
let fleet = null;               // the newest answer about all proxies; null: there is none yet

function follow(trails, keys, time) {
  const shown = new Set(keys.map(k => k.id));
  for (const id of trails.keys()) if (!shown.has(id)) trails.delete(id);
  for (const k of keys) trails.set(k.id, grown(trails.get(k.id) ?? [], { t: time, ...counts(k) }));
}

const counts = ({ rate, decisions, denied, refused, fail, shadow }) => ({ rate, decisions, denied, refused, fail, shadow });

// grown adds the newest counts to a trail.
function grown(trail, now) {
  const last = trail.at(-1);
  if (last && Object.keys(now).some(name => name !== 't' && name !== 'rate' && now[name] < last[name])) trail = []; // it is counted anew
  while (trail.at(-1)?.t >= now.t) trail.pop(); // as for points
  trail.push(now);
  while (trail[0].t <= now.t - KEPT) trail.shift();
  return trail;
}

// recent returns what became of the requests of the last seconds; without earlier counts, of all.
function recent(trail) {
  const now = trail.at(-1);
  const then = trail.length > 1 ? trail.findLast(p => p.t <= now.t - RECENT) ?? trail[0] : { t: now.t - RECENT, shadow: now.shadow };
  const since = name => (now[name] ?? 0) - (then[name] ?? 0);
  const seconds = (now.t - then.t) / 1000;
  return { all: since('decisions'), seconds, denied: since('denied'), refused: since('refused'), fail: since('fail'), shadow: since('shadow') / seconds };
}

const keyRows = $('keys').tBodies[0];
pickable(keyRows);

function showKeys() {
  follow(trails, snapshot.keys, snapshot.time);
  if (view === 'policies') return;
  const all = view === 'fleet';
  const keys = all ? fleet?.keys ?? [] : snapshot.keys;
  let ordered = keys;
  if (steady(keyRows)) {
    const place = new Map([...keyRows.children].map((e, i) => [e.dataset.id, i]));
    ordered = keys.toSorted((a, b) => (place.get(a.id) ?? 99) - (place.get(b.id) ?? 99));
  }
  $('keys').hidden = !keys.length;
  showNoKeys(keys);
  list(keyRows, ordered, k => k.id, newKey, (row, k) => showKey(row, k, (all ? fleetTrails : trails).get(k.id)));
}

// showNoKeys says what to type, if there are no keys.
function showNoKeys(keys) {
  const empty = $('keys-empty');
  empty.hidden = keys.length > 0;
  if (keys.length) return;
  if (view === 'fleet') return put(empty, fleet ? 'No key is busy now.' : 'Asking the nodes …');
  if (snapshot.denials.length || points.some(p => p.decisions > 0)) return put(empty, 'No key is busy now.');
  if (!empty.querySelector('code')) empty.replaceChildren('No decision yet. To make the first one, type', make('br'), make('code', '', `${client()} RL.SLIDE tenant:42 100 60`));
}

// client is how to begin a line that asks this proxy.
const client = () => `redis-cli -h ${location.hostname.replace(/[^\w.:-]/g, '')}${snapshot.port ? ` -p ${snapshot.port}` : ''}`;

function newKey(k) {
  const name = make('th', 'text', keyLink(k.id, k.key), make('span', 'under'), make('span', 'under trouble'));
  name.scope = 'row';
  const trail = drawing('svg', { class: 'trail', viewBox: '0 0 60 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, drawing('path', {}), drawing('path', { class: 'area' }));
  return make('tr', '', name, make('td'), make('td', 'far', trail), newAway(), make('td', '', make('span'), make('span', 'far soft'), newBar()), make('td', 'far'));
}

function showKey(row, k, trail) {
  const [name, rate, drawn, turned, left, shards] = row.children;
  const now = recent(trail);
  put(name.children[1], now.shadow > 0 ? `SHADOW would deny ${joined(perSecond(now.shadow))}` : '');
  put(name.lastChild, now.fail > 0 ? `no node answered ${joined(share(now.fail / now.all))}` : '');
  put(rate, brief(k.rate));
  rate.title = plain.format(k.rate) + (k.drawn > 0 ? `, ${joined(share(k.drawn / k.admitted))} admitted from advances` : '');
  showTrail(drawn.firstChild, trail);
  showAway(turned, now);
  showLeft(left, k);
  put(shards, k.shards > 1 ? String(k.shards) : '–');
  shards.className = k.shards > 1 ? 'far' : 'far soft';
}

function showTrail(svg, trail) {
  const most = Math.max(1, ...trail.map(p => p.rate));
  const all = runs(trail, p => p.rate, 2 * MOMENT);
  const [x, y] = [t => 60 - (snapshot.time - t) / KEPT * 60, v => 19 - v / most * 17];
  svg.children[0].setAttribute('d', line(all, p => p.rate, x, y));
  svg.children[1].setAttribute('d', band(all, p => p.rate, x, y, 20));
}

// newAway is a cell for what is turned away: the share, and a bar with what a limit denied and what no node answered.
const newAway = () => make('td', 'away', make('span'), make('span', 'bar', make('i', 'denied'), make('i', 'trouble')));

function showAway(cell, { all, denied, refused }) {
  const [text, bar] = cell.children;
  put(text, all > 0 ? joined(share((denied + refused) / all)) : '–');
  text.className = refused > 0 ? 'trouble' : denied > 0 ? 'denied' : 'soft';
  const parts = [denied, refused].map(n => all > 0 ? Math.max(0, n / all) : 0);
  parts.forEach((x, i) => { bar.children[i].style.width = x * 100 + '%'; });
  cell.title = all > 0 ? `by limit ${joined(share(parts[0]))}, no answer of a node ${joined(share(parts[1]))}` : '';
}

function showLeft(left, k) {
  const known = k.remaining >= 0 && k.limit > 0;
  put(left.children[0], known ? brief(k.remaining) : '–');
  put(left.children[1], k.limit > 0 ? ` of ${brief(k.limit)}` : '');
  left.title = known ? `${plain.format(k.remaining)} of ${plain.format(k.limit)}` : '';
  left.children[2].className = known && k.remaining === 0 ? 'bar denied' : 'bar';
  fill(left.children[2], known ? k.remaining / k.limit : 0);
}

$('find').addEventListener('submit', e => {
  e.preventDefault();
  const key = e.target.elements[0].value;
  if (key) location.hash = 'key=' + encode(key);
});

// encode returns the id of a key: base64url of its bytes.
function encode(text) {
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

function decode(id) {
  const bytes = Uint8Array.from(atob(id.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}
