// The page without a server, in one file that `scanline export --page` writes with a model in it.

import "../style/offline.css";
import "./server";
import "../main";
