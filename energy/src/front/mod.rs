//! Energy files: the Opt language in Lua.
