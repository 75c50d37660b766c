// Drives the unmodified npm package nova-sdk-js against a self-hosted service:
// node sdk.mjs URL ACCOUNT GROUP COMMAND ARGUMENT… with the API key on standard
// input. Answers one line of JSON.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';

const require = createRequire(process.cwd() + '/');
const { NovaSdk } = require('nova-sdk-js');
console.log = console.warn = () => {};

const [url, account, group, command, ...args] = process.argv.slice(2);
const sdk = new NovaSdk(account, {
  apiKey: readFileSync(0, 'utf8').trim(),
  authUrl: url, mcpUrl: url, rpcUrl: url + '/rpc', contractId: 'svc.testnet',
});

const commands = {
  status: () => sdk.authStatus(group),
  register: () => sdk.registerGroup(group),
  add: (member) => sdk.addGroupMember(group, member),
  revoke: (member) => sdk.revokeGroupMember(group, member),
  upload: (file, name) => sdk.upload(group, readFileSync(file), name),
  retrieve: async (ref, file) => {
    const got = await sdk.retrieve(group, ref);
    writeFileSync(file, got.data);
    return { ipfs_hash: got.ipfs_hash, group_id: got.group_id };
  },
  balance: () => sdk.getBalance(),
  owner: () => sdk.getGroupOwner(group),
  checksum: () => sdk.getGroupChecksum(group),
  authorized: (member) => sdk.isAuthorized(group, member),
  transactions: () => sdk.getTransactionsForGroup(group),
  network: () => sdk.getNetworkInfo(),
  token: () => sdk.refreshToken(),
  hash: async (file) => [sdk.computeHash(readFileSync(file)), await sdk.computeHashAsync(readFileSync(file))],
  composite: async (file, name) => {
    const up = await sdk.compositeUpload(group, readFileSync(file), name);
    const down = await sdk.compositeRetrieve(group, up.cid);
    return Buffer.compare(down.data, readFileSync(file)) === 0;
  },
  fee: async (action) => String(await sdk.estimateFee(action)),
};

try {
  process.stdout.write(JSON.stringify({ ok: await commands[command](...args) }) + '\n');
} catch (e) {
  process.stdout.write(JSON.stringify({ error: String(e.message), name: e.name }) + '\n');
}
