// The adapter of rate-limiter-flexible: a fixed window that begins with a key's first
// request, on ioredis as its documentation configures it. Its windows are whole seconds.
'use strict';

const { Redis } = require('ioredis');
const { RateLimiterRedis } = require('rate-limiter-flexible');

const [host, port] = process.env.PEER_REDIS.split(':');
const storeClient = new Redis({ host, port: Number(port), enableOfflineQueue: false });
storeClient.on('error', () => {}); // each request learns of it

const limiters = new Map();
function per(limit, ms) {
  if (ms % 1000 !== 0) throw new Error('a window is whole seconds');
  const name = `${limit}/${ms}`;
  if (!limiters.has(name)) limiters.set(name, new RateLimiterRedis({ storeClient, points: limit, duration: ms / 1000 }));
  return limiters.get(name);
}

async function ask(lines) {
  for await (const line of lines) {
    const [key, limit, ms, cost] = line.split(' ');
    try {
      await per(Number(limit), Number(ms)).consume(key, Number(cost));
      console.log('1 0');
    } catch (rejected) {
      if (rejected instanceof Error) console.log('error', String(rejected).replace(/\s+/g, ' '));
      else console.log('0', rejected.msBeforeNext);
    }
  }
}

// load asks about random keys with so many callers at a time for as many seconds as each line says.
async function load(lines, callers, keys, limiter) {
  for await (const line of lines) {
    const took = [];
    let allowed = 0;
    let errors = 0;
    const began = performance.now();
    const end = began + Number(line) * 1000;
    const call = async () => {
      for (let at = performance.now(); at < end;) {
        try {
          await limiter.consume(`key:${String(Math.floor(Math.random() * keys)).padStart(12, '0')}`);
          allowed++;
        } catch (rejected) {
          if (rejected instanceof Error) errors++;
        }
        const now = performance.now();
        took.push(now - at);
        at = now;
      }
    };
    await Promise.all(Array.from({ length: callers }, call));
    const seconds = (performance.now() - began) / 1000;
    const sorted = Float64Array.from(took).sort();
    const us = (quantile) => sorted[Math.floor(quantile * (sorted.length - 1))] * 1000;
    console.log(JSON.stringify({ decisions: took.length, allowed, errors, seconds, p50_us: us(0.5), p99_us: us(0.99) }));
  }
}

storeClient.once('ready', async () => {
  const lines = require('node:readline').createInterface({ input: process.stdin });
  const [mode, ...numbers] = process.argv.slice(2);
  const [callers, keys, limit, ms] = numbers.map(Number);
  await (mode === 'load' ? load(lines, callers, keys, per(limit, ms)) : ask(lines));
  process.exit(0);
});
