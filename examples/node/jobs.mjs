// A queue of jobs that call somebody else's API, which takes at most LIMIT units per second.
//
//     npm install
//     printf '%s\n' 'a 1' 'b 5' 'c 1' | API=http://127.0.0.1:8000 node jobs.mjs
//
// A job is a line of the standard input: its name, and its units, such as the recipients of a mail. One command
// waits for the turn of a job: BLOCK has rlproxy answer when there is room for all of its units. A large job is not
// overtaken by small ones that came after it. All queues that ask the same rlproxy share the limit.
//
// RLPROXY names rlproxy's host:port, and WORKERS says how many jobs run at a time.
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const { API, LIMIT = '10', RLPROXY = '127.0.0.1:6380', WORKERS = 3 } = process.env
const WAIT = 60_000 // ms for which a job waits for its turn before it asks again

/** Waits until a job may call the API. */
async function turn(rl, units) {
  for (;;) {
    try {
      const [allowed, , , retryAfter] = await rl.sendCommand(
        ['RL.SLIDE', 'api:mail', LIMIT, '1s', 'COST', units, 'BLOCK', String(WAIT)])
      if (allowed) return
      await sleep(retryAfter) // WAIT is over, or will be before there is room
    } catch (err) {
      console.error('waiting for rlproxy:', err.message)
      await sleep(1000)
    }
  }
}

/** Does jobs until there are no more. Each worker has a connection of its own: other commands wait behind BLOCK. */
async function work(jobs) {
  const rl = createClient({ url: `redis://${RLPROXY}`, disableOfflineQueue: true })
  rl.on('error', (err) => console.error(err.message))
  await rl.connect()
  for (;;) {
    const { value: line, done } = await jobs.next()
    if (done) break
    const [job, units] = line.split(' ')
    await turn(rl, units)
    const answer = await fetch(`${API}/${job}`, { method: 'POST' }).catch((err) => err)
    console.log(answer.ok ? 'done' : 'failed', job)
  }
  rl.destroy()
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
await Promise.all(Array.from({ length: Number(WORKERS) }, () => work(lines)))
