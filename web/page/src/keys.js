// ---- The busiest keys.

const trails = new Map();  // the last minute of each key that is shown

function follow(keys, time) {
  const shown = new Set(keys.map(k => k.id));
  for (const id of trails.keys()) if (!shown.has(id)) trails.delete(id);
  for (const k of keys) {
    let trail = trails.get(k.id) ?? [];
    const last = trail.at(-1);
    const { rate, admitted, denied, fail, shadow } = k;
    if (last && (admitted < last.admitted || denied < last.denied || fail < last.fail || shadow < last.shadow)) trail = []; // the proxy has started to count the key again
    while (trail.at(-1)?.t > time) trail.pop(); // as for points
    trail.push({ t: time, rate, admitted, denied, fail, shadow });
    while (trail[0].t <= time - TRAIL) trail.shift();
    trails.set(k.id, trail);
  }
}

// recent returns how many answers a key got in the last seconds: in all, denied, and by a FAIL policy;
// and how many per second SHADOW would have denied.
function recent(k) {
  const trail = trails.get(k.id);
  const now = trail.at(-1);
  const then = trail.find(p => p.t > now.t - RECENT && p !== now) ?? { t: now.t - RECENT, admitted: 0, denied: 0, fail: 0, shadow: now.shadow };
  const [denied, fail] = [now.denied - then.denied, now.fail - then.fail];
  return { denied, fail, all: now.admitted - then.admitted + denied + fail, shadow: (now.shadow - then.shadow) / (now.t - then.t) * 1000 };
}

const keyRows = $('keys').tBodies[0];
pickable(keyRows);

function showKeys() {
  const { keys, time } = snapshot;
  follow(keys, time);
  let ordered = keys;
  if (steady(keyRows)) {
    const place = new Map([...keyRows.children].map((e, i) => [e.dataset.id, i]));
    ordered = keys.toSorted((a, b) => (place.get(a.id) ?? 99) - (place.get(b.id) ?? 99));
  }
  $('keys').hidden = !keys.length;
  $('keys-empty').hidden = keys.length > 0;
  if (!keys.length) {
    if (snapshot.denials.length || points.some(p => p.decisions > 0)) put($('keys-empty'), 'No key is busy now.');
    else if (!$('keys-empty').querySelector('code')) {
      $('keys-empty').replaceChildren('No decision yet. Try:', make('br'), make('code', '', 'redis-cli -p 6380 RL.SLIDE tenant:42 100 60'));
    }
  }
  list(keyRows, ordered, k => k.id, newKey, showKey);
}

function newKey(k) {
  const name = make('th', 'text', keyLink(k.id, k.key), make('span', 'under'), make('span', 'under trouble'));
  name.scope = 'row';
  const trail = drawing('svg', { class: 'trail', viewBox: '0 0 60 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, drawing('path', {}), drawing('path', { class: 'area' }));
  return make('tr', '', name, make('td'), make('td', 'far', trail), make('td'), make('td', '', make('span'), make('span', 'far soft'), newBar()), make('td', 'far'));
}

function showKey(row, k) {
  const [name, rate, trail, denied, left, shards] = row.children;
  const { all, denied: refused, fail, shadow } = recent(k);
  put(name.children[1], shadow > 0 ? `SHADOW would deny ${joined(perSecond(shadow))}` : '');
  put(name.lastChild, fail > 0 ? `${joined(share(fail / all))} answered by FAIL policy` : '');
  put(rate, count(k.rate));
  rate.title = k.drawn > 0 ? `${joined(share(k.drawn / k.admitted))} admitted from advances` : '';
  const minute = trails.get(k.id);
  const most = Math.max(1, ...minute.map(p => p.rate));
  const drawn = paths(minute, p => p.rate, t => 60 - (snapshot.time - t) / 1000, v => 19 - v / most * 17, 20);
  const [line, area] = trail.firstChild.children;
  line.setAttribute('d', drawn[0]);
  area.setAttribute('d', drawn[1]);
  put(denied, all > 0 ? joined(share(refused / all)) : '–');
  denied.className = refused > 0 ? 'denied' : 'soft';
  const known = k.remaining >= 0 && k.limit > 0;
  put(left.children[0], known ? brief(k.remaining) : '–');
  put(left.children[1], k.limit > 0 ? ` of ${brief(k.limit)}` : '');
  left.title = known ? `${plain.format(k.remaining)} of ${plain.format(k.limit)}` : '';
  left.children[2].className = known && k.remaining === 0 ? 'bar denied' : 'bar';
  fill(left.children[2], known ? k.remaining / k.limit : 0);
  put(shards, k.shards > 1 ? String(k.shards) : '–');
  shards.className = k.shards > 1 ? 'far' : 'far soft';
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
