// ---- The nodes, or the memory of the embedded engine.

const MOST_NODES = 24;

function showNodes() {
  const { nodes, memory, engine } = snapshot;
  $('nodes-empty').hidden = nodes.length > 0 || !!memory;
  put($('nodes-empty'), 'You may not see the nodes.');
  $('nodes').hidden = !nodes.length;
  $('memory').hidden = !memory;
  put($('nodes-title'), engine === 'embedded' ? 'Memory' : 'Nodes');
  if (memory) {
    const [now, bar, note] = $('memory').children;
    putFigure(now, bytes(memory.used));
    const full = memory.max > 0 && memory.used >= 0.95 * memory.max;
    now.className = full ? 'now trouble' : 'now';
    bar.hidden = !memory.max;
    fill(bar, memory.used / memory.max);
    put(note, (memory.max ? `of ${joined(bytes(memory.max))} · ` : '') + `${count(memory.keys)} ${memory.keys === 1 ? 'key' : 'keys'}`);
  }
  const up = nodes.filter(n => n.state === 'up').length;
  const more = nodes.length - MOST_NODES;
  put($('nodes-note'), nodes.length ? `${up} of ${nodes.length} up` + (more > 0 ? `, ${MOST_NODES} shown` : '') : '');
  $('nodes-note').className = up < nodes.length ? 'aside trouble' : 'aside soft';
  const trouble = n => n.state === 'up' ? 1 : 0;
  list($('nodes').tBodies[0], nodes.toSorted((a, b) => trouble(a) - trouble(b)).slice(0, MOST_NODES), n => n.name, newNode, showNode);
}

function newNode(n) {
  const name = make('th', 'text', make('span', 'dot'), ' ', make('bdi', '', visible(n.name)), make('span', 'sr'), make('span', 'under'));
  name.scope = 'row';
  name.title = visible(n.name);
  return make('tr', '', name, make('td'), make('td'), make('td'));
}

function showNode(row, n) {
  const [name, latency, queue, offset] = row.children;
  const [dot, , word, why] = name.children;
  dot.className = 'dot ' + (n.state === 'up' || n.state === 'suspect' ? n.state : 'down');
  put(word, ' ' + n.state);
  put(why, n.state === 'up' && !n.why ? '' : visible(n.state + (n.why ? ': ' + n.why : '')));
  why.title = why.textContent;
  why.className = n.state === 'up' ? 'under' : n.state === 'suspect' ? 'under denied' : 'under trouble';
  put(latency, n.state === 'down' ? '–' : joined(delay(n.latency_us)));
  put(queue, brief(n.queue));
  queue.title = plain.format(n.queue);
  offset.className = n.wrong ? 'trouble' : '';
  put(offset, n.offset_us == null || n.state === 'down' ? '–' : (n.offset_us < 0 ? '−' : '+') + joined(delay(Math.abs(n.offset_us))));
}
