//! Budgets: what reading and deriving an energy may take. They are counts, so that a file is refused on every machine or on none.

use std::fmt;

/// Most that an energy may take, from its text to its routines. The defaults are a hundred times what large energies need, and are spent in
/// a few seconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Budgets {
    /// Nodes of the DAG with their operands, derivatives included: some 30 bytes each.
    pub nodes: u64,
    /// Visits of nodes by what builds and derives expressions.
    pub steps: u64,
    /// Functions and operators inside each other in an expression; derivatives may be four times as deep.
    pub depth: u32,
    /// Entries of a Vector.
    pub entries: u32,
    /// Scalar residuals and conditions of `Exclude`.
    pub residuals: u32,
    /// Instructions of Lua that an energy file runs.
    pub lua_instructions: u64,
    /// Bytes of an energy file, and of the memory of its Lua state.
    pub lua_memory: u64,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            nodes: 4_000_000,
            steps: 100_000_000,
            depth: 400,
            entries: 4096,
            residuals: 20_000,
            lua_instructions: 5_000_000,
            lua_memory: 32 << 20,
        }
    }
}

/// Budgets that can be spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Budget {
    Nodes,
    Steps,
    Depth,
    Entries,
    Residuals,
    LuaInstructions,
    LuaMemory,
}

impl Budgets {
    /// The figure of one of them.
    pub fn of(&self, budget: Budget) -> u64 {
        match budget {
            Budget::Nodes => self.nodes,
            Budget::Steps => self.steps,
            Budget::Depth => self.depth.into(),
            Budget::Entries => self.entries.into(),
            Budget::Residuals => self.residuals.into(),
            Budget::LuaInstructions => self.lua_instructions,
            Budget::LuaMemory => self.lua_memory,
        }
    }
}

impl Budget {
    /// The name of its field in [`Budgets`], as a word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Budget::Nodes => "nodes",
            Budget::Steps => "steps",
            Budget::Depth => "depth",
            Budget::Entries => "entries",
            Budget::Residuals => "residuals",
            Budget::LuaInstructions => "lua-instructions",
            Budget::LuaMemory => "lua-memory",
        }
    }

    /// Returns how to do with less of it, or to get more.
    pub fn remedy(self) -> String {
        let less = match self {
            Budget::Nodes | Budget::Steps => {
                "is there a loop whose expression grows? A ComputedArray holds a part that many residuals read"
            }
            Budget::Depth => "does a loop put one function around the other? A ComputedArray ends a chain",
            Budget::Entries => "an array with a dim more serves better than a long Vector",
            Budget::Residuals => {
                "is there an `Energy` in a loop that does not end? One over a dim stands for all its elements"
            }
            Budget::LuaInstructions => "is there a loop that does not end?",
            Budget::LuaMemory => "is there a table or string that grows without end?",
        };
        format!("{less} (the budget: --max-{})", self.name())
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Budget::Nodes => "nodes and operands in its expressions",
            Budget::Steps => "visits of the nodes of its expressions",
            Budget::Depth => "operations inside each other in an expression",
            Budget::Entries => "entries in a Vector",
            Budget::Residuals => "residuals and conditions",
            Budget::LuaInstructions => "instructions of Lua",
            Budget::LuaMemory => "bytes of text or of Lua's memory",
        })
    }
}
