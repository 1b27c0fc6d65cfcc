// Starts the page: what every tab shares first, then the tabs.

import "./style/base.css";
import "./style/controls.css";
import { allModels } from "./api/models";
import { sayError } from "./look/notice";
import { setUpTabs } from "./look/tabs";
import { setUpTheme } from "./look/theme";
import { offerModels } from "./look/model";

setUpTheme();
setUpTabs();
allModels().then(offerModels).catch(sayError);
