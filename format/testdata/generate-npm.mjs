// Made the files npm-*.json beside this one, with the unmodified npm package:
//
//	cd "$(mktemp -d)" && npm install nova-sdk-js@1.0.3
//	node …/format/testdata/generate-npm.mjs …/format/testdata
//
// A stub answers the three requests of an upload and keeps the ciphertext. The
// files are frozen: run this again only to add cases.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';

const { NovaSdk } = createRequire(process.cwd() + '/')('nova-sdk-js');
const out = process.argv[2];
const key = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 7 + 1 & 0xff)).toString('base64');
let kept;
const server = createServer((req, res) => {
  let body = '';
  req.on('data', (d) => body += d).on('end', () => {
    const answers = {
      '/api/auth/session-token': () => ({ token: 't', account_id: 'a.testnet', expires_in: '24h' }),
      '/tools/prepare_upload': () => ({ upload_id: 'u', key }),
      '/api/finalize-upload': () => (kept = JSON.parse(body), { cid: 'bafyx', trans_id: 't', file_hash: kept.file_hash }),
    };
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(answers[req.url]()));
  });
}).listen(0, '127.0.0.1', async () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const sdk = new NovaSdk('a.testnet', { apiKey: 'k', authUrl: url, mcpUrl: url, rpcUrl: url, contractId: 'x.testnet' });
  const cases = { text: Buffer.from('written by nova-sdk-js 1.0.3\n'), empty: Buffer.alloc(0), 'one-byte': Buffer.from([0]),
    binary: Buffer.from(Array.from({ length: 1000 }, (_, i) => i & 0xff)) };
  for (const [name, data] of Object.entries(cases)) {
    await sdk.upload('g', data, name);
    writeFileSync(`${out}/npm-${name}.json`, JSON.stringify({
      comment: `nova-sdk-js 1.0.3 upload() of ${data.length} bytes`, key, blob: kept.encrypted_data, format: kept.format ?? null,
      sha256: createHash('sha256').update(data).digest('hex'), result: 'ok' }, null, 1) + '\n');
  }
  server.close();
});
