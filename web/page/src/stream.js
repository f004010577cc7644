// ---- The stream. A hidden page is not connected; the history fills the gap when it is shown again.

// The address of the API, without the password that the page's own address may have: fetch refuses that.
const api = location.origin + location.pathname + 'api/';

let source = null;    // while connected or connecting
let timer = 0;        // starts the next attempt, or declares the connection lost after a silence
let wait = 1000;      // ms until the next attempt
let since = 0;        // when the connection was lost; 0: it is not lost
let told = '';        // what the server answered instead of a stream
let points = [];      // those of the last five minutes, oldest first
let snapshot = null;  // the newest

function connect() {
  disconnect();
  if (document.hidden) return;
  source = new EventSource(api + 'stream');
  source.addEventListener('history', e => {
    const past = JSON.parse(e.data);
    points = past.points;
    trails = new Map(Object.entries(past.trails));
  });
  source.addEventListener('snapshot', e => take(JSON.parse(e.data)));
  source.addEventListener('error', () => lost(source.readyState === EventSource.CLOSED));
  timer = setTimeout(lost, SILENCE, false);
}

function disconnect() {
  source?.close();
  source = null;
  clearTimeout(timer);
}

function take(s) {
  if (snapshot && snapshot.version !== s.version) return location.reload(); // the page is part of the version
  clearTimeout(timer);
  timer = setTimeout(lost, SILENCE, false);
  const back = since || !snapshot;
  [since, wait, snapshot] = [0, 1000, s];
  if (back) state('up', 'live');
  while (points.at(-1)?.t >= s.point.t) points.pop(); // the machine's clock was set back
  points.push(s.point);
  while (points[0].t <= s.time - KEPT) points.shift();
  show();
}

// lost reports that the connection is lost and tries again later, less and less often. If the
// server answered with an error, it shows the error.
async function lost(refused) {
  disconnect();
  since ||= Date.now();
  timer = setTimeout(connect, wait);
  wait = Math.min(wait * 2, 10_000);
  state('down', 'offline');
  if (!refused) return;
  try {
    const answer = await fetch(api + 'stream', { signal: AbortSignal.timeout(5000) });
    const why = answer.ok ? '' : await reason(answer);
    if (!why) answer.body.cancel();
    else if (since) told = ` The answer is: ${why}.`;
  } catch { /* the server does not answer */ }
}

async function reason(answer) {
  let said = await answer.text();
  try { said = JSON.parse(said).error; } catch { /* it is plain text */ }
  return visible(said.trim() || `${answer.status} ${answer.statusText}`).replace(/\.$/, '');
}

function state(name, text) {
  const [dot, label] = $('link').children;
  dot.className = 'dot ' + name;
  put(label, text);
  if (name === 'up') told = '';
  age();
}

// age shows, each second, for how long there has been no connection.
let ages = 0;
function age() {
  clearInterval(ages);
  const alert = $('lost');
  alert.hidden = !since;
  document.body.classList.toggle('stale', since > 0);
  if (!since) return;
  document.title = 'offline · rlproxy';
  const tick = () => {
    put(alert.children[0], `No connection since ${clock(since)}.${told} The page keeps trying.`);
    put(alert.children[1], `(${span(Math.round((Date.now() - since) / 1000) * 1000)})`);
  };
  tick();
  ages = setInterval(tick, 1000);
}

document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    disconnect();
    clearInterval(ages);
  } else connect();
});
addEventListener('online', () => { if (since) connect(); });

function show() {
  const s = snapshot;
  const urgent = s.problems.filter(p => p.page).length;
  document.title = `${urgent ? `(${urgent}) ` : ''}${joined(perSecond(s.point.decisions))} · rlproxy`;
  const where = s.engine === 'embedded' ? 'embedded engine' : s.nodes.length === 1 ? '1 node' : s.nodes.length && `${s.nodes.length} nodes`; // a user may not see any
  put($('about'), [s.version, where, `up ${span(s.uptime_s * 1000)}`].filter(Boolean).join(' · '));
  showProblems();
  showFigures();
  showView();
  showNodes();
  showDenials();
  if (chosen) showReset();
}
