package service

import "context"

// Sweep sweeps at once what [Service.Serve] sweeps once a minute.
func (s *Service) Sweep(ctx context.Context) error { return s.files.Sweep(ctx) }
