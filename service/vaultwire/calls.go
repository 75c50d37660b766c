package vaultwire

import "context"

// Keep implements [Vault].
func (c *Client) Keep(ctx context.Context, q Keep) (Kept, error) {
	return call[Kept](ctx, c, "keep", q)
}

// Make implements [Vault].
func (c *Client) Make(ctx context.Context, q Make) (Made, error) {
	return call[Made](ctx, c, "make", q)
}

// Forget implements [Vault].
func (c *Client) Forget(ctx context.Context, q Forget) (Nothing, error) {
	return call[Nothing](ctx, c, "forget", q)
}

// Sign implements [Vault].
func (c *Client) Sign(ctx context.Context, q Sign) (Signed, error) {
	return call[Signed](ctx, c, "sign", q)
}

// Extend implements [Vault].
func (c *Client) Extend(ctx context.Context, q Extension) (Nothing, error) {
	return call[Nothing](ctx, c, "extend", q)
}

// Follow implements [Vault].
func (c *Client) Follow(ctx context.Context, q Follow) (Followed, error) {
	return call[Followed](ctx, c, "follow", q)
}

// NewestTree implements [Vault].
func (c *Client) NewestTree(ctx context.Context, q Nothing) (Tree, error) {
	return call[Tree](ctx, c, "newest-tree", q)
}

// SealPage implements [Vault].
func (c *Client) SealPage(ctx context.Context, q Text) (Text, error) {
	return call[Text](ctx, c, "seal-page", q)
}

// OpenPage implements [Vault].
func (c *Client) OpenPage(ctx context.Context, q Text) (Text, error) {
	return call[Text](ctx, c, "open-page", q)
}

// MakeKey implements [Vault].
func (c *Client) MakeKey(ctx context.Context, q MakeKey) (MadeKey, error) {
	return call[MadeKey](ctx, c, "make-key", q)
}

// TakeKey implements [Vault].
func (c *Client) TakeKey(ctx context.Context, q TakeKey) (Opened, error) {
	return call[Opened](ctx, c, "take-key", q)
}

// SealOnly implements [Vault].
func (c *Client) SealOnly(ctx context.Context, q SealOnly) (MadeKey, error) {
	return call[MadeKey](ctx, c, "seal-only", q)
}

// IssueToken implements [Vault].
func (c *Client) IssueToken(ctx context.Context, q IssueToken) (Text, error) {
	return call[Text](ctx, c, "issue-token", q)
}

// OpenToken implements [Vault].
func (c *Client) OpenToken(ctx context.Context, q OpenToken) (Claims, error) {
	return call[Claims](ctx, c, "open-token", q)
}

// Wrap implements [Vault].
func (c *Client) Wrap(ctx context.Context, q Wrap) (Wrapped, error) {
	return call[Wrapped](ctx, c, "wrap", q)
}

// OpenFile implements [Vault].
func (c *Client) OpenFile(ctx context.Context, q OpenFile) (OpenedFile, error) {
	return call[OpenedFile](ctx, c, "open-file", q)
}

// OpenList implements [Vault].
func (c *Client) OpenList(ctx context.Context, q OpenList) (Opened, error) {
	return call[Opened](ctx, c, "open-list", q)
}

// Check implements [Vault].
func (c *Client) Check(ctx context.Context, q Check) (Checked, error) {
	return call[Checked](ctx, c, "check", q)
}

// Rewrap implements [Vault].
func (c *Client) Rewrap(ctx context.Context, q Rewrap) (Rewrapped, error) {
	return call[Rewrapped](ctx, c, "rewrap", q)
}

// OpenSealed implements [Vault].
func (c *Client) OpenSealed(ctx context.Context, q OpenSealed) (Held, error) {
	return call[Held](ctx, c, "open-sealed", q)
}

// OpenJournal implements [Vault].
func (c *Client) OpenJournal(ctx context.Context, q OpenJournal) (SealedKey, error) {
	return call[SealedKey](ctx, c, "open-journal", q)
}

// Legacy implements [Vault].
func (c *Client) Legacy(ctx context.Context, q Binding) (Opened, error) {
	return call[Opened](ctx, c, "legacy", q)
}

// Archive implements [Vault].
func (c *Client) Archive(ctx context.Context, q Nothing) (Archive, error) {
	return call[Archive](ctx, c, "archive", q)
}

// ReadNext implements [Vault].
func (c *Client) ReadNext(ctx context.Context, q ReadNext) (Named, error) {
	return call[Named](ctx, c, "read-next", q)
}

// WrapForNext implements [Vault].
func (c *Client) WrapForNext(ctx context.Context, q Keep) (Made, error) {
	return call[Made](ctx, c, "wrap-for-next", q)
}

// UseNext implements [Vault].
func (c *Client) UseNext(ctx context.Context, q Nothing) (Replaced, error) {
	return call[Replaced](ctx, c, "use-next", q)
}
